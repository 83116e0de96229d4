"""The runs that were begun in a folder, wherever their run folders are.

The index is in the user's state folder: a line of JSON for each run, with its folder, its working folder and
its start. Each machine appends to a file of its own, because two machines cannot append to one file on NFS.
A full file is renamed, so that a writer that has it open loses nothing. The index is a convenience: a line
that cannot be written or read is skipped, and the folder nsyswrap-runs/ is searched as well.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, Unreadable
from nsyswrap.base.files import parsed, small_file, typed, user_folder
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.paths import Skip
from nsyswrap.base.run_folder import BATCH, DEFAULT_BASE, EXPORT, REPORT, RUN, STATUS, RunFolder

with lazy_imports():
    import datetime as dt
    import socket

SOURCES = (".py", ".cu")  # suffixes of programs that are run or compiled as they are
CALLER = "call_function.py"  # the script that calls the function which its first argument names
_FILES = "runs"  # the folder of the index; one file a machine
_FULL = ".older"  # suffix of a full file
_FULL_BYTES = 256 << 10
_MARKS = {RUN, STATUS, BATCH}  # a folder with one of these holds a run or a batch
_RANK, _REPEAT = re.compile(r"rank-\d+"), re.compile(r"run-(\d+)")
_CLOCKS_S = 86_400  # by which the clock of another machine can be ahead
_AGO = ((86_400, "day"), (3600, "hour"), (60, "minute"))


@dataclass(frozen=True)
class _Begun:
    """A line of the index: a run folder, the working folder, and the start in seconds of the epoch."""

    folder: str
    cwd: str
    began: float


def note_begun(folder: Path) -> None:
    """Add a run folder or a batch folder to the index. Nothing happens where it cannot be written."""
    index = _index_folder()
    if index is None:
        return
    entry = {"folder": os.path.realpath(folder), "cwd": str(Path.cwd()), "began": round(time.time(), 3)}
    line = f"\n{json.dumps(entry)}"  # a line that a full disk cut off does not spoil the next one
    with suppress(OSError, Unreadable):
        index.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = index / f"{socket.gethostname().replace('/', '-')}.jsonl"
        if paths.size(path) > _FULL_BYTES:
            path.replace(path.with_suffix(_FULL))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o600)
        try:
            os.write(descriptor, line.encode())  # in one piece, so that lines do not mix
        finally:
            os.close(descriptor)


def begun_runs(here: Path | None = None, skip: Skip = paths.ignore) -> list[tuple[Path, float]]:
    """Return the folders of runs and batches that still exist, newest first, with the start of each.

    These were begun in ``here`` or below; the runs in ``here/nsyswrap-runs`` are added. None: all runs of the
    index. Starts are in seconds of the epoch. ``skip`` is called for a folder that may not be entered.
    """
    latest: dict[str, tuple[float, str]] = {}  # a folder can be used again, from elsewhere
    for folder, cwd, start in _lines(skip):
        latest[folder] = max((start, cwd), latest.get(folder, (0.0, "")))
    began = {
        Path(folder): start
        for folder, (start, cwd) in latest.items()
        if here is None or Path(cwd).is_relative_to(here)
    }
    real = {str(folder) for folder in began}
    for path in _unlisted(here or Path.cwd(), skip):
        if os.path.realpath(path) not in real:
            began[path] = _changed(path)
    there = [path for path in began if _has_mark(path, skip)]
    starts = {path: max(began[path], _started(path)) for path in there}  # recorded again on another machine
    return sorted(starts.items(), key=itemgetter(1), reverse=True)


def newest_run(skip: Skip = paths.ignore) -> tuple[Path, float]:
    """Return the folder and the start of the newest run begun in this folder or below that has ended.

    Runs without a capture count only if there are no others. A folder below this one is returned as a
    relative path. ``skip`` is called for a folder that may not be entered. Raises CaptureError if there is
    none.
    """
    here = Path.cwd()
    ended = _ended(here, skip)
    if ended:
        newest = next(filter(_has_capture, ended), next(iter(ended)))
        if is_rank(newest):  # the first of its ranks
            ranks = [folder for folder in ended if folder.parent == newest.parent and is_rank(folder)]
            newest = min(ranks, key=lambda folder: (len(folder.name), folder.name))
        return short_path(newest, here), ended[newest]
    raise CaptureError(
        "no run was begun in this folder or below",
        "give a .sqlite, a .nsys-rep or a run folder, or profile a program first",
    )


def without_capture_since(start: float) -> list[Path]:
    """Return the runs begun here after ``start``, in seconds of the epoch, that ended without a capture."""
    here = Path.cwd()
    return [
        short_path(folder, here)
        for folder, began in _ended(here).items()
        if began > start and not _has_capture(folder)
    ]


def _ended(here: Path, skip: Skip = paths.ignore) -> dict[Path, float]:
    """Return the runs that have ended, newest first, with the start of each."""
    return {folder: start for folder, start in begun_runs(here, skip) if paths.exists(folder / STATUS)}


def _has_capture(folder: Path) -> bool:
    return paths.exists(folder / EXPORT) or paths.exists(folder / REPORT)


def _has_mark(folder: Path, skip: Skip) -> bool:
    """Return True if a folder is that of a run or a batch. Of 100,000 runs most are gone: none is listed."""
    try:
        return any(paths.exists(folder / mark) for mark in _MARKS)
    except Unreadable as error:
        error.path = str(folder)
        skip(error)
        return False


def is_rank(folder: Path) -> bool:
    """Return True for the run folder of one rank of a launch, whose parent is the folder of the launch."""
    return bool(_RANK.fullmatch(folder.name) and RunFolder(folder).read_run().get("rank"))


def is_repeat(folder: Path) -> bool:
    """Return True for the run folder of one of several equal runs, whose parent is the folder of all."""
    return bool(_REPEAT.fullmatch(folder.name) and RunFolder(folder).read_run().get("repeat"))


def repeats_in(folder: Path) -> list[Path]:
    """Return the run folders of the equal runs in a folder, in their order."""
    folders = paths.matching(folder, "run-*")
    numbers = {path: match for path in folders if (match := _REPEAT.fullmatch(path.name))}
    return [path for path in sorted(numbers, key=lambda path: int(numbers[path][1])) if is_repeat(path)]


def short_path(path: Path, here: Path) -> Path:
    """Return a path below ``here`` as a relative one."""
    return path.relative_to(here) if path.is_relative_to(here) else path


def program_of(run: dict[str, Any]) -> str:
    """Return the name of the program in run.json: ``train.py`` for ``/usr/bin/python3 /home/me/train.py``."""
    command = run.get("command") or run.get("program") or [""]
    words = [str(word) for word in command] if isinstance(command, list) else [str(command)]
    return Path(program_word(words)).name


def program_name(words: Sequence[str]) -> str:
    """Return the name that run folders and messages have: ``train`` for ``python3 /home/me/train.py``."""
    path = Path(program_word(words))
    return (path.stem if path.suffix in SOURCES else path.name) or Path(words[0]).name


def program_word(words: Sequence[str]) -> str:
    """Return the word of a command line that is its program: the script or module, where Python runs it."""
    rest = words[1:] if Path(words[0]).name.startswith("python") else []
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):  # options of Python
        rest = rest[2 if rest[0] in ("-X", "-W") else 1 :]
    if not rest or rest[0] in ("-c", "-"):
        return words[0]
    return "".join(rest[1:2]) if rest[0] == "-m" or Path(rest[0]).name == CALLER else rest[0]


def ago(start: float, now: float | None = None) -> str:
    """Return how long ago a time was: ``3 minutes ago``."""
    seconds = (time.time() if now is None else now) - start
    for size, unit in _AGO:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def _lines(skip: Skip) -> Iterator[tuple[str, str, float]]:
    """Yield folder, working folder and start of each run of the index, oldest first in each file."""
    index = _index_folder()
    files = paths.matching(index, "*", skip) if index else ()
    for file in sorted(files, key=lambda path: path.suffix != _FULL):
        try:
            text = small_file(file).decode(errors="replace")
        except OSError as error:
            skip(paths.unreadable(file, error))
            continue
        for line in text.splitlines():
            if not line.startswith("{"):  # a damaged file can have millions of them
                continue
            with suppress(ValueError):
                entry = typed(_Begun, parsed(json.loads, line))
                if 0 <= entry.began <= time.time() + _CLOCKS_S:
                    yield entry.folder, entry.cwd, entry.began


def _index_folder() -> Path | None:
    """Return ``$XDG_STATE_HOME/nsyswrap/runs`` or that in ``~/.local/state``; None without a home."""
    folder = user_folder("XDG_STATE_HOME", ".local/state")
    return folder and folder / _FILES


def _unlisted(here: Path, skip: Skip) -> Iterator[Path]:
    """Yield the runs and batches in nsyswrap-runs/ and one level deeper, where scenarios and ranks are."""
    for folder in paths.matching(here / DEFAULT_BASE, "*", skip):
        names = paths.names(folder, skip)
        if not _MARKS.isdisjoint(names):
            yield folder
        inner = (folder / name for name in names if not name.startswith("."))
        yield from (path for path in inner if not _MARKS.isdisjoint(paths.names(path, skip)))


def _started(folder: Path) -> float:
    """Return the start of a run by its run.json; 0 if that has none."""
    with suppress(ValueError, OverflowError):
        if started := RunFolder(folder).read_run().get("started"):
            return dt.datetime.fromisoformat(str(started)).timestamp()
    return 0.0


def _changed(folder: Path) -> float:
    """Return the start of a run by its run.json, or the time of change of its files."""
    if started := _started(folder):
        return started
    times = []
    for mark in _MARKS:
        with suppress(Unreadable):
            facts = paths.status(folder / mark)
            times += [facts.st_mtime] if facts else []
    return max(times, default=0.0)
