"""The runs that were begun in a folder, wherever their run folders are.

The index is in the user's state folder: a line of JSON for each run, with its folder, its working folder and
its start. Each machine appends to a file of its own, because two machines cannot append to one file on NFS.
A full file is renamed, so that a writer that has it open loses nothing. The index is a convenience: a line
that cannot be written or read is skipped, and the folder nsyswrap-runs/ is searched as well.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, CommandHint, Unreadable
from nsyswrap.base.files import parsed, read_json, small_file, typed, user_folder
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.paths import Skip
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import (
    BATCH,
    DEFAULT_BASE,
    EXPORT,
    FILES,
    REPORT,
    RUN,
    STATUS,
    RunFolder,
    program_word,
)

with lazy_imports():
    import datetime as dt
    import socket

_CAPTURES = (Path(EXPORT).suffix, Path(REPORT).suffix)  # those that need no nsys first
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
    return list(_newest_first(_candidates(here, skip)))


class _Candidate(NamedTuple):
    """A run or batch, its start in the index, if it is there, and the last change of its files."""

    folder: str
    began: float | None
    changed: float

    @property
    def latest(self) -> float:
        """The latest start that it can have: before its files were changed, but for clocks that differ."""
        return max(self.began or 0.0, self.changed + _CLOCKS_S)

    @property
    def start(self) -> float:
        """The start by the index or run.json; a listed run can have been recorded again elsewhere."""
        started = _started(self.folder)
        return (started or self.changed) if self.began is None else max(self.began, started)


def _newest_first(candidates: Sequence[_Candidate]) -> Iterator[tuple[Path, float]]:
    """Yield folders and starts. Of 20,000 runs few run.json are read until the newest is known."""
    exact: list[tuple[float, int]] = []  # a heap of starts and places
    latest = [one.latest for one in candidates]
    for place in sorted(range(len(candidates)), key=latest.__getitem__, reverse=True):
        while exact and -exact[0][0] > latest[place]:
            start, newest = heapq.heappop(exact)
            yield Path(candidates[newest].folder), -start
        heapq.heappush(exact, (-candidates[place].start, place))
    for start, newest in sorted(exact):
        yield Path(candidates[newest].folder), -start


def _candidates(here: Path | None, skip: Skip) -> list[_Candidate]:
    """Return the runs and batches that still exist and were begun in ``here``; None: anywhere."""
    latest: dict[str, tuple[float, str]] = {}  # a folder can be used again, from elsewhere
    for folder, cwd, start in _lines(skip):
        latest[folder] = max((start, cwd), latest.get(folder, (0.0, "")))
    listed: dict[str, float | None] = {
        folder: start
        for folder, (start, cwd) in latest.items()
        if here is None or Path(cwd).is_relative_to(here)
    }
    dated = [(folder, start, _changed(folder, _MARKS, skip)) for folder, start in listed.items()]
    real = lru_cache(maxsize=1)(os.path.realpath)  # of the parent: that of 20,000 folders takes a second
    for folder, marks in _unlisted(here or Path.cwd(), skip):
        parent, _, name = folder.rpartition("/")
        own = os.path.realpath(folder) if listed and paths.is_link(folder) else f"{real(parent)}/{name}"
        if own not in listed:
            dated.append((folder, None, _changed(folder, marks, skip)))
    return [_Candidate(folder, start, time) for folder, start, time in dated if time is not None]


class NewestRun(NamedTuple):
    """A run, its start in seconds of the epoch, and the runs begun after it that ended without a capture."""

    path: Path
    start: float
    failed: list[Path]


def newest_run(skip: Skip = paths.ignore) -> NewestRun:
    """Return the newest run begun in this folder or below that has ended.

    Runs without a capture count only if there are no others. A folder below this one is returned as a
    relative path. ``skip`` is called for a folder that may not be entered. Raises CaptureError if there is
    none.
    """
    here = Path.cwd()
    candidates = _candidates(here, skip)
    newest: tuple[Path, float] | None = None
    for run in _ended(candidates):
        newest = newest or run
        if _has_capture(run[0]):
            newest = run
            break
    if newest is None:
        raise CaptureError(
            "no run was begun in this folder or below",
            captures_hint(here) or "give a .sqlite, a .nsys-rep or a run folder, or profile a program first",
        )
    folder, start = newest
    if is_rank(folder):  # the first of its ranks
        of_launch = [one for one in candidates if os.path.dirname(one.folder) == str(folder.parent)]  # noqa: PTH120
        ranks = [run for run in _ended(of_launch) if is_rank(run[0])]
        folder, start = min(ranks, key=lambda run: (len(run[0].name), run[0].name))
    newer = takewhile(lambda run: run[1] > start, _ended(candidates))
    failed = [short_path(one, here) for one, _ in newer if not _has_capture(one)]
    return NewestRun(short_path(folder, here), start, failed)


def captures_hint(folder: Path) -> str:
    """Return which files in the current folder can be captures, and what reads them; empty if none can."""
    files = [name for end in _CAPTURES for name in paths.names(folder, paths.ignore) if name.endswith(end)]
    if not files:
        return ""
    command = ["nsyswrap", "report", files[0]]
    if len(files) == 1:
        return CommandHint.of(command, "a .sqlite or .nsys-rep file is here: {}")
    count = f"{len(files):,} .sqlite and .nsys-rep files are here"
    return CommandHint.of(command, f"{count}: {{}}; of all: nsyswrap collect .")


def _ended(candidates: Sequence[_Candidate]) -> Iterator[tuple[Path, float]]:
    """Yield the runs that have ended, newest first, with the start of each."""
    return (run for run in _newest_first(candidates) if paths.exists(run[0] / STATUS))


def _has_capture(folder: Path) -> bool:
    return paths.exists(folder / EXPORT) or paths.exists(folder / REPORT)


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


def _unlisted(here: Path, skip: Skip) -> Iterator[tuple[str, set[str]]]:
    """Yield the runs and batches in nsyswrap-runs/ and one level deeper, where scenarios and ranks are.

    Each comes with the names in it that mark it. Files of a run are not taken for folders, which takes time.
    """
    base = str(here / DEFAULT_BASE)
    for folder in (f"{base}/{name}" for name in paths.names(base, skip) if not name.startswith(".")):
        names = set(paths.names(folder, skip))
        if marks := names & _MARKS:
            yield folder, marks
        for name in sorted(names.difference(FILES)):
            if not name.startswith("."):
                inner = f"{folder}/{name}"
                if marks := _MARKS.intersection(paths.names(inner, skip)):
                    yield inner, marks


def _started(folder: str) -> float:
    """Return the start of a run by its run.json; 0 if that has none."""
    with suppress(OSError, ValueError, OverflowError):
        run = read_json(f"{folder}/{RUN}")
        if isinstance(run, dict) and isinstance(started := run.get("started"), str):
            return dt.datetime.fromisoformat(started).timestamp()
    return 0.0


def _changed(folder: str, marks: Iterable[str], skip: Skip) -> float | None:
    """Return the last change of the files that mark a run or a batch; None if the folder has none.

    Of 100,000 listed runs most are gone: no folder is listed.
    """
    times, hidden = [], None
    for mark in marks:
        try:
            facts = paths.status(f"{folder}/{mark}")
        except Unreadable as error:
            hidden = error
            continue
        times += [facts.st_mtime] if facts else []
    if hidden and not times:
        hidden.path = folder
        skip(hidden)
    return max(times, default=None)
