"""Turn the user's program (a script, a module, a .cu file or an executable) into a command line."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nsyswrap.base import paths
from nsyswrap.base.errors import NotExecutable, ProgramNotFound, Unreadable
from nsyswrap.base.lazy import lazy_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

with lazy_imports():
    from nsyswrap.record import nvcc, nvcc_options

# These start the program in another container, as a child of another user, or on another node.
_DETACHING = {
    "docker": "the container's processes are started by the Docker daemon",
    "podman": "the container's processes are started outside nsys' process tree",
    "sudo": "sudo removes environment variables that nsys needs",
    "srun": "the step's processes are started by slurmd",
}


@dataclass(frozen=True)
class Program:
    """A command line, the program's name for the run folder, and a warning to show before the run.

    ``if_it_fails``: a hint for the case that the program fails. ``folder`` is that of a .cu file.
    """

    argv: tuple[str, ...]
    name: str
    warning: str = ""
    if_it_fails: str = ""
    folder: Path | None = None


def resolve(
    command: Sequence[str], *, module: bool = False, arch: str | None = None, nvcc_words: Sequence[str] = ()
) -> Program:
    """Return the program of ``command``; a .cu file is compiled, for ``arch`` (``sm_90``) if given.

    ``nvcc_words`` are further options of nvcc. Raises UsageError if they cannot be used, ProgramNotFound or
    NotExecutable, and for a .cu file the errors of ``nvcc.build``.
    """
    name, *rest = command
    if nvcc_words:
        nvcc_options.check(name, nvcc_words, module=module)
    if module:
        return Program((sys.executable, "-m", name, *rest), name, if_it_fails=_other_python(f"-m {name}"))
    path = Path(name)
    if path.suffix == ".py":
        _check_readable(path)
        return Program((sys.executable, name, *rest), path.stem, if_it_fails=_other_python(name))
    if path.suffix == ".cu":
        _check_readable(path)
        built = nvcc.build(path, (*nvcc_words, *nvcc.architecture(arch)))
        warning = f"nvcc built {name} and printed:\n{built.output}" if built.output else ""
        return Program((str(built.path), *rest), path.stem, warning, folder=path.parent)
    _check_executable(name)
    reason = _DETACHING.get(path.name, "")
    advice = (
        f"nsys may not trace through {path.name}: {reason}. Run `nsyswrap profile` inside instead."
        if reason
        else ""
    )
    return Program(tuple(command), path.name, advice)


def execute_bare(program: Program, env: Mapping[str, str]) -> NoReturn:
    """Replace this process by the program, without nsys. Raises ProgramNotFound or NotExecutable."""
    try:
        os.execvpe(program.argv[0], program.argv, {**os.environ, **env})  # noqa: S606 - the user's program, without a shell
    except FileNotFoundError:
        raise ProgramNotFound(f"{program.name} not found") from None
    except OSError as error:
        raise NotExecutable(f"{program.name} could not be executed: {error.strerror}") from None


def _other_python(words: str) -> str:
    """Return a hint that ``words`` ran with our Python; empty if that is also the Python on PATH."""
    other = shutil.which("python") or shutil.which("python3")
    if other is None or Path(other).parent == Path(sys.executable).parent:
        return ""
    return f"the program ran with {sys.executable}; to use {other}: nsyswrap profile {other} {words}"


def _check_readable(path: Path) -> None:
    if _is(paths.is_folder, path):
        raise NotExecutable(f"{path} is a folder", "give a script, a .cu file or an executable")
    if not _is(paths.exists, path):
        raise ProgramNotFound(f"{path} not found", f"the current folder is {Path.cwd()}")
    if not os.access(path, os.R_OK):
        raise NotExecutable(f"{path} cannot be read", "check its permissions")


def _is(look: Callable[[Path], bool], path: Path) -> bool:
    """Return what a look at a program says. Raises NotExecutable if one may not look."""
    try:
        return look(path)
    except Unreadable as error:
        raise NotExecutable(error.message, error.hint) from None


def _check_executable(name: str) -> None:
    if shutil.which(name):
        return
    path = Path(name)
    if os.sep not in name:
        here = f"use ./{name} for the one in this folder" if _is(paths.exists, path) else ""
        raise ProgramNotFound(f"{name} not found on PATH", here)
    if not _is(paths.exists, path):
        raise ProgramNotFound(f"{name} not found")
    _check_readable(path)
    raise NotExecutable(f"{name} is not executable", f"use chmod +x {name}, or name its interpreter")
