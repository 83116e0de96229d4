"""Stored runs: the run folders that there are, how their runs ended, and removing them.

A stored run is a run folder, the ranks of a launch, equal runs or a batch. Only files that nsyswrap writes
are removed, only from folders that hold its run.json or spec.json, and no symbolic link is followed.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, OutputError, Unreadable
from nsyswrap.base.files import LOCK, is_lock_file, is_locked, locked
from nsyswrap.base.recent_runs import begun_runs, is_rank, is_repeat, repeats_in
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_facts import batch_of
from nsyswrap.base.run_folder import (
    BATCH,
    CLAIM,
    DEFAULT_BASE,
    FILES,
    PAGE,
    RUN,
    RUNS,
    SPEC,
    STATUS,
    TASK_LOG,
    WORK,
    RunFolder,
    is_page,
    rank_folders,
)
from nsyswrap.record.batch.folder import ENDED, open_batch, read_state

Kind = Literal["run", "launch", "repeats", "batch"]
_OF_SEVERAL = ("launch", "repeats")  # a run folder of these is below the folder of all
_NAMES = (*FILES, SPEC, CLAIM, TASK_LOG)
_OWN = {*_NAMES, *(f".{name}.part" for name in _NAMES)}
_WORK = re.compile(rf"{re.escape(WORK)}[0-9a-f]{{12}}")
_FINISHED = set(ENDED) - {"interrupted"}  # states of the runs of a batch that is not to go on


@dataclass(frozen=True)
class StoredRun:
    """A run folder, the ranks of a launch, equal runs or a batch. ``members`` are its run folders.

    ``began`` is the start of the newest member, in seconds of the epoch.
    """

    path: Path
    kind: Kind
    members: tuple[Path, ...]
    began: float

    @property
    def states(self) -> Counter[str]:
        """How many members are in each state: an outcome, or running, unfinished, planned, lost, damaged."""
        if self.kind == "batch":
            return Counter(read_state(folder).state for folder in self.members)
        return Counter(map(_state, self.members))

    @property
    def newest(self) -> float:
        """The last start or end of a member, in seconds of the epoch."""
        statuses = (_status(one) for one in self.members)
        return max([self.began, *(facts.st_mtime for facts in statuses if facts)])

    @property
    def size_bytes(self) -> int:
        """The size of the files that ``remove`` would remove."""
        return sum(_size(path) for one in _with_ranks(self.members) for path in _own_entries(one))

    def obstacle(self) -> str:
        """Return why these files must stay; empty if they can be removed."""
        if not self.members:
            return f"{self.path / BATCH} is not valid" if self.kind == "batch" else "it has no run folder"
        for path in (self.path, *self.members):
            if os.path.realpath(path) != os.path.abspath(path):  # noqa: PTH100 - resolve() would follow links
                return f"{path} is reached through a symbolic link"
            if is_locked(path):
                return "it is in use"
        if self.kind == "batch":
            if paths.is_link(self.path / BATCH):
                return f"{self.path / BATCH} is not valid"
            unfinished = {state: count for state, count in self.states.items() if state not in _FINISHED}
            counts = ", ".join(f"{count} {state}" for state, count in unfinished.items())
            return f"the batch is not finished: {counts}" if counts else ""
        return next(filter(None, map(_obstacle, self.members)), "")

    def remove(self) -> tuple[int, list[Path]]:
        """Remove what nsyswrap wrote. Return the bytes that were freed, and the paths that are left.

        Folders are removed if nothing is left in them. Raises OutputError if something stands in the way.
        """
        if obstacle := self.obstacle():
            raise OutputError(f"{self.path} is not removed: {obstacle}")
        try:
            if self.kind == "batch":
                with locked(self.path, "a batch"):
                    freed = sum(map(_emptied, _with_ranks(self.members)))
                    for thousand in {run.parent for run in self.members} - {self.path / RUNS}:
                        _remove_empty(thousand)
                    _remove_empty(self.path / RUNS)
                    _remove_files(self.path, BATCH, *_page(self.path))
                    _remove_empty(self.path)
            else:
                freed = sum(map(_emptied, self.members))
                _remove_files(self.path, *_page(self.path))  # of several runs
                _remove_empty(self.path)
                if self.path.parent.parent.name == DEFAULT_BASE.name:  # the folder of a scenario
                    _remove_empty(self.path.parent)
        except OSError as error:
            raise OutputError(f"cannot remove {error.filename}: {error.strerror}") from None
        except Unreadable as error:
            raise OutputError(f"cannot remove {error.path}: {error.reason}") from None
        return freed, list(_left(self))


def stored_runs(here: Path | None, skip: paths.Skip = paths.ignore) -> list[StoredRun]:
    """Return the runs begun in ``here`` or below, newest first; None: all that the index knows.

    ``skip`` is called for a folder that may not be entered.
    """
    starts: dict[Path, float] = {}
    kinds: dict[Path, Kind] = {}
    for folder, start in begun_runs(here, skip):
        kind = _kind(folder)
        path = folder.parent if kind in _OF_SEVERAL else folder
        kinds[path] = kind
        starts[path] = max(start, starts.get(path, start))
    stored = []
    for path, kind in kinds.items():
        try:
            stored.append(StoredRun(path, kind, tuple(_members(path, kind)), starts[path]))
        except Unreadable as error:
            skip(error)
    return stored


def _kind(folder: Path) -> Kind:
    if is_rank(folder):
        return "launch"
    if is_repeat(folder):
        return "repeats"
    return "batch" if paths.exists(folder / BATCH) else "run"


def _members(path: Path, kind: Kind) -> Iterable[Path]:
    if kind == "run":
        return [path]
    if kind == "repeats":
        return repeats_in(path)
    if kind == "launch":
        return [folder for folder in rank_folders(path).values() if is_rank(folder)]
    try:
        batch = open_batch(path)
    except OutputError:
        return []
    return [path / RUNS / name for name in (*batch.runs.values(), *batch.left_out.values())]


def _with_ranks(members: Iterable[Path]) -> Iterator[Path]:
    for member in members:
        if not paths.is_link(member):
            yield from (path for path in rank_folders(member).values() if not paths.is_link(path))
        yield member


def _state(folder: Path) -> str:
    if is_locked(folder):
        return "running"
    if not _status(folder):
        return "unfinished"
    try:
        return RunFolder(folder).read_status().outcome
    except CaptureError:
        return "damaged"


def _status(folder: Path) -> os.stat_result | None:
    """Return the status of status.json; None if the run has none, or if one may not look."""
    try:
        return paths.status(folder / STATUS)
    except Unreadable:
        return None


def _obstacle(folder: Path) -> str:
    run = RunFolder(folder).read_run()
    if paths.is_link(folder / RUN) or not ("nsyswrap" in run or {"program", "nsys"} <= run.keys()):
        return f"{folder / RUN} was not written by nsyswrap"
    if paths.exists(batch_of(folder) / BATCH):
        return f"it is part of the batch {batch_of(folder)}"
    host = run.get("host", "")
    if not _status(folder) and host != socket.gethostname():
        return f"it has not ended, and may still run on {host or 'another machine'}"
    return ""


def _own_entries(folder: Path) -> Iterator[Path]:
    """Yield the files and the working folders of nsyswrap in a run folder. Links are not among them."""
    if paths.is_link(folder) or not any(_is_file(folder / mark) for mark in (RUN, SPEC)):
        return
    own = {*_OWN, *_page(folder)}
    for name in paths.names(folder):
        is_work = _WORK.fullmatch(name) and paths.is_folder(folder / name, follow=False)
        if is_work or (name in own and _is_file(folder / name)):
            yield folder / name


def _page(folder: Path) -> list[str]:
    return [PAGE] if is_page(folder / PAGE) else []


def _is_file(path: Path) -> bool:
    return paths.is_file(path, follow=False)


def _size(path: Path) -> int:
    facts = paths.status(path, follow=False)
    if facts is None or not stat.S_ISDIR(facts.st_mode):
        return facts.st_size if facts else 0
    return sum(_size(path / name) for name in paths.names(path))


def _emptied(folder: Path) -> int:
    """Remove the files of one run, run.json and spec.json last. Return how many bytes these were."""
    if not paths.is_folder(folder):
        return 0
    with locked(folder, "a run"):
        own = sorted(_own_entries(folder), key=lambda path: path.name in (RUN, SPEC))
        freed = 0
        for path in own:
            size = _size(path)
            shutil.rmtree(path) if paths.is_folder(path) else path.unlink()
            freed += size
        _remove_empty(folder)
    return freed


def _remove_files(folder: Path, *names: str) -> None:
    for path in (folder / name for name in names):
        if _is_file(path):
            path.unlink()


def _remove_empty(folder: Path) -> None:
    with suppress(OSError, Unreadable):
        if is_lock_file(folder / LOCK) and len(paths.names(folder)) == 1:
            (folder / LOCK).unlink()
        folder.rmdir()


def _left(run: StoredRun) -> Iterator[Path]:
    """Yield what is left in the folders of a run: what nsyswrap did not write, and the tables of a batch."""
    folders = (*run.members, run.path)
    for folder in dict.fromkeys(folders):
        inside = (folder / name for name in paths.names(folder))
        yield from (path for path in inside if path not in folders and path != run.path / RUNS)
