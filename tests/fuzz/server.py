"""Run cases: one process imports everything, and forks a child for each command.

A child has its own process group, a limit of memory and of CPU time, and files for stdout and stderr. What
holds for every case is checked here; what holds for one kind of answer, by ``Case.problem``.
"""

import atexit
import gc
import importlib
import os
import pkgutil
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from waiting import PATIENCE_S

import nsyswrap
from fuzz import baselines, files, hostile, raw, sql, tables
from fuzz.case import Case
from nsyswrap.base.version import version
from nsyswrap.cli import main

SUBJECTS: dict[str, Callable[[random.Random, Path], Case]] = {
    "raw": raw.case,
    "sql": sql.case,
    "files": files.case,
    "hostile": hostile.case,
    "tables": tables.case,
    "baselines": baselines.case,
}
_ORDER = (*("raw", "sql") * 8, "files", "hostile", "tables", "baselines")
MEMORY_BYTES = 2_000_000_000
DEADLINE_S = 10.0
_CPU_BYTES = 1024 if sys.platform == "linux" else 1  # ru_maxrss has kilobytes on Linux
# These need PyTorch, or load so much (pandas, matplotlib) that each fork would take 10 ms longer.
_NOT_IMPORTED = (
    *("nsyswrap.record.in_program", "nsyswrap.record.doctor.programs", "nsyswrap.capture.frames"),
    "nsyswrap.render.plots",
    *("nsyswrap.render.notebook", "nsyswrap.render.formats.parquet", "nsyswrap.__main__"),
)
_LATER = ("difflib", "encodings.ascii", "numpy.ma", "numpy.random", "rich.console", "rich.styled", "zipfile")
_ERROR = re.compile(r"(?:nsyswrap: [^\n]+\n(?:  [^\n]+\n)?)+")  # the error comes last, notes before it
_OTHERS_SHOWN = (65, 69)  # exit codes of a command that leaves out some of several captures
_LINE = re.compile(r"(?:(?:nsyswrap: |wrote |\w+(?: \w+)?  |  ).+)?")
_WARNING = re.compile(r"^nsyswrap: warning: .*", re.MULTILINE)


class Limits(NamedTuple):
    """What a command may use: seconds of a CPU, and more by the clock, as a busy machine gives it no turn."""

    seconds: float = DEADLINE_S
    wall_s: float = PATIENCE_S
    bytes: int = MEMORY_BYTES


LIMITS = Limits()


class Ended(NamedTuple):
    """How a command ended; ``code`` is negative for a signal. ``stopped`` says which limit it reached."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    peak_bytes: int
    stopped: str = ""


class Outcome(NamedTuple):
    """What became of a case; ``finding`` is empty if all is right."""

    kind: str
    seed: int
    code: int
    finding: str
    made: str
    seconds: float
    argv: list[str]
    must_answer: bool


def prepare() -> None:
    """Import what commands import while they run, and ask git, so that no child has to."""
    for module in pkgutil.walk_packages(nsyswrap.__path__, "nsyswrap."):
        if not module.name.startswith(_NOT_IMPORTED):
            importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)
    version()
    gc.collect()
    gc.freeze()  # children copy no page of what is imported


def numbered(seed: int, kinds: tuple[str, ...]) -> tuple[str, int]:
    """Return the kind and the seed of a case."""
    order = [kind for kind in _ORDER if kind in kinds]
    return order[seed % len(order)], seed


def outcome(kind: str, seed: int, limits: Limits = LIMITS, keep: Path | None = None) -> Outcome:
    """Make the case of a seed, run it, and judge it. ``keep`` is the folder to leave it in."""
    begun = time.monotonic()
    with _folder(keep) as place:
        folder = place / "case"
        folder.mkdir()
        case = SUBJECTS[kind](random.Random(f"{kind} {seed}"), folder)  # noqa: S311 - cases, no secrets
        try:
            code, finding = judged(case, place, limits)
        finally:
            case.after()
        return Outcome(
            kind, seed, code, finding, case.made, time.monotonic() - begun, case.argv, case.must_answer
        )


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Make a folder, in memory if there is such a place; it goes when the block ends."""
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep
        return
    shared = Path("/dev/shm")  # noqa: S108 - a folder of its own in it
    parent = shared if shared.is_dir() and os.access(shared, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="nsyswrap-fuzz-", dir=parent))
    try:
        yield folder
    finally:  # a TemporaryDirectory would go when the first child ends
        shutil.rmtree(folder, ignore_errors=True)


def judged(case: Case, place: Path, limits: Limits) -> tuple[int, str]:
    """Run a case whose inputs are in ``place / "case"``; return the exit code and what is wrong."""
    folder = place / "case"
    before, listed = {path: _state(path) for path in case.inputs}, set(_listed(folder))
    ended = run(case, place, limits)
    left = set(_listed(folder)) - listed
    if case.names_each and ended.code in _OTHERS_SHOWN:
        left = {
            path for path in left if path.name.startswith(".") or (path.is_dir() and not any(path.iterdir()))
        }
    elif ended.code == 0:
        left = {path for path in left if not any(path.is_relative_to(output) for output in case.outputs)}
    left |= set(_listed(place / "tmp"))
    changed = [path.name for path, state in before.items() if _state(path) != state]
    finding = (
        ended.stopped
        or _of_process(case, ended)
        or (f"changed its input: {', '.join(changed)}" if changed else "")
        or (f"left files: {', '.join(sorted(str(path.relative_to(place)) for path in left))}" if left else "")
        or case.problem(ended.code, ended.stdout, ended.stderr)
    )
    return ended.code, finding


def _of_process(case: Case, ended: Ended) -> str:
    said = f"{ended.stdout}\n{ended.stderr}"
    if "Traceback (most recent call last)" in said:
        return f"a traceback: {said.strip().splitlines()[-1]}"
    if warning := _WARNING.search(ended.stderr):
        return f"a warning of a library: {warning[0]}"
    if ended.code < 0:
        return f"killed by {signal.Signals(-ended.code).name}"
    if ended.code not in case.codes or (case.must_answer and ended.code):
        return f"exit code {ended.code}: {ended.stderr.strip()[-300:]}"
    lines = ended.stderr.splitlines() if case.names_each else []
    is_error = all(map(_LINE.fullmatch, lines)) if lines else _ERROR.fullmatch(ended.stderr)
    if ended.code > 1 and not is_error:
        return f"an error of other than one line and a hint: {ended.stderr[-2000:]!r}"
    return ""


def run(case: Case, place: Path, limits: Limits) -> Ended:
    """Run nsyswrap in a child whose working folder is ``place / "case"``."""
    (place / "tmp").mkdir(exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    alive, held = os.pipe()
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(alive)
        _become(case, place, limits)
    os.close(held)
    # The pipe ends when the child has ended, and all that it started.
    try:
        ready, _, _ = select.select([alive], [], [], limits.wall_s)
    except BaseException:
        os.killpg(child, signal.SIGKILL)
        raise
    if not ready:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    os.close(alive)
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    stopped = ""
    if not ready or code == -signal.SIGXCPU:
        stopped = f"ran longer than {limits.seconds:g} s"
    elif used.ru_maxrss * _CPU_BYTES > _size_bytes() + limits.bytes:
        stopped = f"took more than {limits.bytes:,} bytes of memory"
    out, err = (
        (place / name).read_bytes().decode("utf-8", "surrogateescape") for name in ("stdout", "stderr")
    )
    return Ended(code, out, err, time.monotonic() - begun, used.ru_maxrss * _CPU_BYTES, stopped)


def _become(case: Case, place: Path, limits: Limits) -> None:
    """Be the command, in the child."""
    code = 70
    try:
        os.setpgid(0, 0)
        for number, name in enumerate((Path("/dev/null"), place / "stdout", place / "stderr")):
            opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC * bool(number), 0o600)
            os.dup2(opened, number)
            os.close(opened)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        os.environ.update(_environment(place))
        tempfile.tempdir = None
        os.chdir(place / "case")
        seconds = max(1, round(limits.seconds))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        most = _size_bytes() + limits.bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        try:
            case.before()
            main(case.argv)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001 - as Python would end
            sys.excepthook(*sys.exc_info())
            code = 1
        atexit._run_exitfuncs()  # noqa: SLF001 - what a process does at its end
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(code)


def _environment(place: Path) -> Mapping[str, str]:
    home = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")
    return {"TMPDIR": str(place / "tmp"), **dict.fromkeys(home, str(place / "home")), "COLUMNS": "100"}


def _size_bytes() -> int:
    """Return how much memory this process has mapped."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def _state(path: Path) -> tuple[bytes, int]:
    try:
        return path.read_bytes(), path.stat().st_mtime_ns
    except OSError:
        return b"", 0


def _listed(folder: Path) -> Iterator[Path]:
    return folder.rglob("*")
