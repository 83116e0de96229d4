"""What the user asked to run, turned into a command line: a script, a module, a .cu file or an executable."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import NotExecutable, ProgramNotFound
from nsyswrap.record.nvcc import compile_cuda

if TYPE_CHECKING:
    from collections.abc import Sequence

# These start the program elsewhere: in another container, as another user's child, on another node.
_DETACHING = {
    "docker": "the container's processes are started by the Docker daemon",
    "podman": "the container's processes are started outside nsys' process tree",
    "sudo": "sudo drops the environment nsys traces through",
    "srun": "the step's processes are started by slurmd",
}


@dataclass(frozen=True)
class Program:
    """A command line that can be executed, the name runs are called by, and what to warn of.

    ``if_it_fails``: what may be the reason then.
    """

    argv: tuple[str, ...]
    name: str
    warning: str = ""
    if_it_fails: str = ""


def resolve(command: Sequence[str], *, module: bool = False, arch: str | None = None) -> Program:
    """Find the program of ``command`` and make it executable; a .cu file is compiled first.

    Raises ProgramNotFound (127) or NotExecutable (126).
    """
    name, *rest = command
    if module:
        return Program((sys.executable, "-m", name, *rest), name, if_it_fails=_other_python(f"-m {name}"))
    path = Path(name)
    if path.suffix == ".py":
        _check_readable(path)
        return Program((sys.executable, name, *rest), path.stem, if_it_fails=_other_python(name))
    if path.suffix == ".cu":
        _check_readable(path)
        return Program((str(compile_cuda(path, arch=arch)), *rest), path.stem)
    _check_executable(name)
    reason = _DETACHING.get(path.name, "")
    advice = (
        f"nsys may not follow {path.name}: {reason}. Run `nsyswrap profile` inside instead." if reason else ""
    )
    return Program(tuple(command), path.name, advice)


def _other_python(words: str) -> str:
    """Tell the Python of PATH apart from ours, which runs ``words``; empty where they are the same."""
    other = shutil.which("python") or shutil.which("python3")
    if other is None or Path(other).parent == Path(sys.executable).parent:
        return ""
    return (
        f"it ran with nsyswrap's own Python, {sys.executable}; for {other}: nsyswrap profile {other} {words}"
    )


def _check_readable(path: Path) -> None:
    if path.is_dir():
        raise NotExecutable(f"{path} is a folder", "give a script, a .cu file or an executable")
    if not path.exists():
        raise ProgramNotFound(f"{path}: No such file", f"the current folder is {Path.cwd()}")
    if not os.access(path, os.R_OK):
        raise NotExecutable(f"{path} cannot be read", "see its permissions")


def _check_executable(name: str) -> None:
    if shutil.which(name):
        return
    path = Path(name)
    if os.sep not in name:
        here = f"for the one in this folder: ./{name}" if path.exists() else ""
        raise ProgramNotFound(f"{name}: there is no such program on PATH", here)
    if not path.exists():
        raise ProgramNotFound(f"{name}: there is no such program")
    _check_readable(path)
    raise NotExecutable(f"{name} is not executable", f"chmod +x {name}, or name its interpreter")
