"""One run to be made: its program, its recording options, its folder and its callbacks.

The user's program (a script, a module, a .cu file or an executable) is turned into a command line. It is
timed from its exec to its exit: without the start of nsys, and without its work afterwards.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nsyswrap.base import paths
from nsyswrap.base.errors import NotExecutable, ProgramNotFound, Unreadable, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import is_python, program_name, program_word
from nsyswrap.base.text import did_you_mean, did_you_mean_file, quoted
from nsyswrap.record.exec_program import STARTED

if TYPE_CHECKING:
    from nsyswrap.base.nsys.find import Nsys
    from nsyswrap.base.run_facts import BareRun

with lazy_imports():
    from nsyswrap.record import nvcc, pythons

# These start the program in another container, as a child of another user, or on another node.
_DETACHING = {
    "docker": "the container's processes are started by the Docker daemon",
    "podman": "the container's processes are started outside nsys' process tree",
    "sudo": "sudo removes environment variables that nsys needs",
    "srun": "the step's processes are started by slurmd",
}
# Files that are no program by their ending, and what to do. {} is the path, {stem} that without the ending.
_NO_PROGRAMS = {
    (".c", ".cc", ".cpp", ".cxx"): (
        "C or C++ source",
        "compile it and profile the executable, or rename it to .cu",
    ),
    (".f", ".f90", ".go", ".rs"): ("source code", "compile it and profile the executable"),
    (".ipynb",): ("a notebook", "jupyter nbconvert --to script {}, then: nsyswrap profile {stem}.py"),
    (".gz",): ("compressed", "gunzip -k {}, then profile the result"),
    (".xz",): ("compressed", "unxz -k {}, then profile the result"),
    (".zip", ".tar", ".tgz", ".whl"): ("an archive", "unpack it and profile a program of it"),
    (".sqlite", ".nsys-rep", ".qdrep"): ("a capture", "nsyswrap report {}"),
    (".toml",): ("a file of settings", "if it is a plan: nsyswrap batch run {}"),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")  # of a variable, as a shell takes it in front of a program
_READ_BYTES = 64  # of what the launcher reports
# What starts a script: a name that is not found may be one of these, mistyped.
_STARTERS = ("python", "python3", "torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "uv")


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


@dataclass(frozen=True)
class RunSpec:
    """The program, its recording options and its run folder.

    ``force`` replaces a run in the folder. ``keep_output`` and ``keep_errors`` write the program's stdout and
    stderr into the run folder. Entries in run.json: ``rank`` of a rank, ``repeat`` of one of equal runs,
    ``bare`` of the same run without nsys. ``is_locked``: the caller has locked the folder.
    """

    program: Program
    output: Path
    options: RecordingOptions = field(default_factory=RecordingOptions)
    force: bool = False
    keep_output: bool = False
    keep_errors: bool = False
    rank: Mapping[str, object] = field(default_factory=dict)
    repeat: Mapping[str, int] = field(default_factory=dict)
    bare: BareRun | None = None
    is_locked: bool = False


@dataclass(frozen=True)
class Callbacks:
    """Functions that are called during a run.

    ``finish`` gets the private folder with a complete export before it is published. It removes secrets and
    adds files of the run. If it raises NsyswrapError, the export is removed. ``without_secrets`` returns a
    text for any other file of the run without them; it is called after ``finish``. ``renamed`` gets the
    number of names in the export that lost one, if any did. ``progress`` gets messages on what nsys does
    after the program's end. ``broken`` gets each unusable nsys that was passed over. ``signal`` is called as
    soon as a signal ends the run.
    """

    finish: Callable[[Path], None] = lambda _: None
    without_secrets: Callable[[str], str] = lambda text: text
    renamed: Callable[[int], None] = lambda _: None
    progress: Callable[[str], None] = lambda _: None
    broken: Callable[[Nsys], None] = lambda _: None
    signal: Callable[[], None] = lambda: None


def resolve(
    command: Sequence[str],
    *,
    module: bool = False,
    arch: str | None = None,
    nvcc_words: Sequence[str] = (),
    ours_first: bool = False,
) -> Program:
    """Return the program of ``command``; a .cu file is compiled, for ``arch`` (``sm_90``) if given.

    ``nvcc_words`` are further options of nvcc. A script or module runs with the Python that the user means:
    see ``pythons.choose``, also for ``ours_first``. Raises UsageError if these options cannot be used,
    ProgramNotFound or NotExecutable, and for a .cu file the errors of ``nvcc.build``.
    """
    name, *rest = command
    _check_quotes(name)
    if nvcc_words:
        nvcc.check(name, nvcc_words, module=module)
    path = Path(name)
    if module or path.suffix == ".py":
        if module:
            _check_module(command)
        else:
            _check_readable(path)
        words = ("-m", name) if module else (name,)
        python = pythons.choose(command, module=module, ours_first=ours_first)
        cure = _other_python(" ".join(map(quoted, (*words, *rest))), python)
        return Program((python.path, *words, *rest), name if module else path.stem, python.runs(name), cure)
    if path.suffix == ".cu":
        _check_readable(path)
        built = nvcc.build(path, (*nvcc_words, *nvcc.architecture(arch)))
        warning = f"nvcc built {name} and printed:\n{built.output}" if built.output else ""
        return Program((str(built.path), *rest), path.stem, warning, folder=path.parent)
    _check_executable(name)
    if is_python(name) and (script := program_word(command)).endswith(".py"):
        _check_readable(Path(script))  # Python would say so in a run of its own
    reason = _DETACHING.get(path.name, "")
    advice = (
        f"nsys may not trace through {path.name}: {reason}. Run `nsyswrap profile` inside instead."
        if reason
        else ""
    )
    return Program(tuple(command), program_name(command), advice)


def cure_of(program: Program) -> str:
    """Return a hint on a program that failed; empty for none. A Python that was typed is asked only now."""
    python, *words = program.argv
    if program.if_it_fails or not is_python(python) or not (lacks := pythons.lacking(program.argv)):
        return program.if_it_fails
    return _other_python(
        " ".join(map(quoted, words)), pythons.Interpreter(shutil.which(python) or python, lacks=lacks)
    )


def execute_bare(program: Program, env: Mapping[str, str]) -> NoReturn:
    """Replace this process by the program, without nsys. Raises ProgramNotFound or NotExecutable."""
    try:
        os.execvpe(program.argv[0], program.argv, {**os.environ, **env})  # noqa: S606 - the user's program, without a shell
    except FileNotFoundError:
        raise ProgramNotFound(f"{program.name} not found") from None
    except OSError as error:
        raise NotExecutable(f"{program.name} could not be executed: {error.strerror}") from None


def _other_python(words: str, chosen: pythons.Interpreter) -> str:
    """Return a hint on the Python that ran ``words``: what it lacks, or that another one is on PATH."""
    ran, lacks = chosen.path, chosen.lacks
    if lacks and (able := pythons.beside(lacks)):
        return f"{ran} has no {lacks}, {able} has it: nsyswrap profile {quoted(able)} {words}"
    if lacks:
        cure = "install it there, or name a Python that has it, which needs no nsyswrap"
        return f"{ran} has no {lacks}: {cure}: nsyswrap profile /path/to/python {words}"
    other = shutil.which("python") or shutil.which("python3")
    if other is None or Path(other).parent == Path(ran).parent:
        return ""
    return f"the program ran with {ran}; to use {other}: nsyswrap profile {quoted(other)} {words}"


def _check_quotes(name: str) -> None:
    """Raise ProgramNotFound for a program and its arguments as one word, as quotes around both make it."""
    first, *rest = name.split(maxsplit=1) or [""]
    if not rest or shutil.which(name) or _is(paths.exists, Path(name)):
        return
    if shutil.which(first) or _is(paths.exists, Path(first)):
        raise ProgramNotFound(f"{name} not found", f"without the quotes: {name}")


def _check_module(command: Sequence[str]) -> None:
    """Raise UsageError if the word behind -m names no module: --modules, or no option, was meant."""
    name, *rest = command
    words = " ".join(map(quoted, command))
    if rest and name.isdecimal():
        raise UsageError(
            f"-m takes the name of a module, and {name} is a number",
            f"use nsyswrap profile --modules {words}",
        )
    is_file = name.endswith(".py") and _is(paths.is_file, Path(name))
    if is_file or (rest and is_python(name) and shutil.which(name)):
        raise UsageError(
            f"-m takes the name of a module, and {name} is {'a file' if is_file else 'a Python'}",
            f"without -m: nsyswrap profile {words}; --modules is another option",
        )


def _check_readable(path: Path, typed: str = "") -> None:
    if _is(paths.is_folder, path):
        raise NotExecutable(f"{path} is a folder", "give a script, a .cu file or an executable")
    if not _is(paths.exists, path):
        raise ProgramNotFound(
            f"{typed or path} not found", did_you_mean_file(path) or f"the current folder is {Path.cwd()}"
        )
    if not os.access(path, os.R_OK):
        raise NotExecutable(f"{path} cannot be read", "check its permissions")


def _is(check: Callable[[Path], bool], path: Path) -> bool:
    """Return what a check of a program says. Raises NotExecutable if its folder may not be read."""
    try:
        return check(path)
    except Unreadable as error:
        raise NotExecutable(error.message, error.hint) from None


def _check_executable(name: str) -> None:
    if shutil.which(name):
        return
    path = Path(name)
    if _is(paths.is_folder, path) and os.sep not in name:
        _check_readable(path)
    for endings, (kind, cure) in _NO_PROGRAMS.items():
        if path.suffix in endings and _is(paths.is_file, path) and not os.access(path, os.X_OK):
            raise NotExecutable(
                f"{name} is {kind}", cure.format(quoted(name), stem=quoted(str(path.with_suffix(""))))
            )
    if os.sep not in name:
        here = f"use ./{quoted(name)} for the one in this folder" if _is(paths.exists, path) else ""
        if here and not os.access(path, os.X_OK):
            here = f"use chmod +x {quoted(name)}, then ./{quoted(name)}; or name its interpreter"
        starter = did_you_mean(name, filter(shutil.which, _STARTERS))
        variable = f"use --env {quoted(name)} to set a variable" if _ASSIGNMENT.match(name) else ""
        raise ProgramNotFound(
            f"{name} not found on PATH", here or variable or starter or did_you_mean_file(path)
        )
    _check_readable(path, name)
    raise NotExecutable(f"{name} is not executable", f"use chmod +x {quoted(name)}, or name its interpreter")


class ProgramTime:
    """The duration of one program. Its launcher reports the start on ``writer``, the kernel the exit.

    Both are noted while ``pause`` waits. ``has_started`` is True once the launcher wrote its ``report`` or
    has ended; ``pid`` is the program's process id, if it wrote one. Linux before 5.3 does not report the
    exit, nor does a Python that was built without ``os.pidfd_open``, as conda's against an old C library.
    """

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self.report, self.has_started = b"", False
        self.pid: int | None = None
        self._process: int | None = None
        self._start_ns: int | None = None
        self._end_ns: int | None = None

    def close(self) -> None:
        """Close the descriptors, except for ``writer``."""
        os.close(self._reader)
        if self._process is not None:
            os.close(self._process)

    @property
    def seconds(self) -> float | None:
        """The duration in s; None if start or exit was not reported."""
        if self._start_ns is None or self._end_ns is None:
            return None
        return round((self._end_ns - self._start_ns) / 1e9, 6)

    def pause(self, seconds: float) -> None:
        """Wait for so many seconds, or until the program starts or exits."""
        watched = self._process if self.has_started else self._reader
        if watched is None or self._end_ns is not None:
            time.sleep(seconds)
        elif select.select([watched], [], [], seconds)[0]:
            if self.has_started:
                self._end_ns = time.monotonic_ns()
            else:
                self._note_start()

    def read_rest(self) -> None:
        """Read what the launcher wrote last: the error number, if the program could not be executed."""
        os.set_blocking(self._reader, False)
        with suppress(
            BlockingIOError
        ):  # a process still has the other end open, and the launcher wrote nothing
            self.report += os.read(self._reader, _READ_BYTES)

    def _note_start(self) -> None:
        self.has_started, self.report = True, os.read(self._reader, _READ_BYTES)
        words = self.report.removeprefix(STARTED).split()
        if not words:  # the launcher never ran
            return
        self.pid, self._start_ns = int(words[0]), int(words[1])
        try:
            self._process = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._end_ns = time.monotonic_ns()
        except (OSError, AttributeError):  # this kernel, container or Python does not offer it
            self._process = None
