"""The ranks of one job: the run folders of a launch, captures that know their rank, or processes of one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.gpu_operations import KINDS
from nsyswrap.base.errors import UsageError
from nsyswrap.base.missing import MISSING
from nsyswrap.base.run_folder import EXPORT, REPORT, RunFolder
from nsyswrap.base.text import shortest_labels
from nsyswrap.capture.global_ids import process_ids
from nsyswrap.capture.selection import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nsyswrap.capture.capture import Capture

FOLDERS = "rank-*"


@dataclass(frozen=True)
class Place:
    """Where a rank's capture lies, and what its run.json says: which rank of how many, on which host.

    ``number`` is None where nobody says which rank it is. ``left_out``: ranks that ran without nsys.
    ``started``: when, as an ISO time in UTC.
    """

    path: Path
    label: str
    number: int | None = None
    world_size: int | None = None
    left_out: tuple[int, ...] = ()
    host: str = ""
    started: str = ""


@dataclass(frozen=True)
class Member:
    """One rank and its capture, in the view asked for."""

    label: str
    number: int | None
    capture: Capture
    host: str = ""

    @property
    def everything(self) -> Capture:
        """All of the rank, whatever is selected of it: of a capture of several, its process."""
        processes = self.capture.view.selection.processes
        return self.capture.viewed(selection=replace(EVERYTHING, processes=processes))


def places(paths: Sequence[Path]) -> list[Place]:
    """Return where the captures of ranks lie, by rank: in a folder with rank-* in it, each of these.

    Raises UsageError where two are of the same rank, or some of another launch than the newest.
    """
    found: list[Path] = []
    for path in paths:
        inside = [folder for folder in sorted(path.glob(FOLDERS)) if folder.is_dir()] if path.is_dir() else []
        found += inside or [path]
    made = [_place(path, label) for path, label in zip(found, shortest_labels(found), strict=True)]
    twice = [number for number, count in Counter(p.number for p in made).items() if count > 1]
    if None not in twice and twice:
        both = " and ".join(str(place.path) for place in made if place.number == twice[0])
        raise UsageError(f"{both} are both of rank {twice[0]}", "give the ranks of one launch")
    if any(place.number is None for place in made):
        return [
            replace(place, number=None, label=label)
            for place, label in zip(made, shortest_labels(found), strict=True)
        ]
    _check_one_launch(made)
    return sorted(made, key=lambda place: place.number or 0)


def _check_one_launch(made: Sequence[Place]) -> None:
    """Raise UsageError where not all say alike how many ranks there were and which were profiled.

    A launch of fewer ranks into the folder of an earlier one leaves the others of that behind.
    """
    saying = [place for place in made if place.world_size]
    newest = max(saying, key=lambda place: place.started, default=None)
    if not newest:
        return
    stale = [
        place
        for place in saying
        if (place.world_size, place.left_out) != (newest.world_size, newest.left_out)
    ]
    if stale:
        names = ", ".join(str(place.path) for place in stale)
        raise UsageError(
            f"ranks of more than one launch: {names} {'is' if len(stale) == 1 else 'are'} not of the newest, "
            f"that of {newest.path}, which had {_world(newest)}",
            "remove what an earlier launch left, or name the ranks of one launch",
        )


def _world(place: Place) -> str:
    bare = f", without nsys on {_listed(set(place.left_out))}" if place.left_out else ""
    return f"{place.world_size} ranks{bare}"


def _place(path: Path, label: str) -> Place:
    home = path.parent if path.name in (EXPORT, REPORT) else path
    run = RunFolder(home).read_run()
    said = run.get("rank", {})
    named = re.search(r"rank[-_.]?(\d{1,9})(?!\d)", home.name)
    number = said.get("rank", int(named[1]) if named else None)
    world_size = said.get("world_size")
    profiled = said.get("profiled")
    left_out = () if profiled is None else tuple(sorted(set(range(world_size or 0)) - set(profiled)))
    label = label if number is None else f"rank {number}"
    return Place(
        path, label, number, world_size, left_out, str(run.get("host", "")), str(run.get("started", ""))
    )


def missing_ranks(found: Sequence[Place]) -> str:
    """Say which ranks of the world are not there, or why; empty where all are, or nobody knows."""
    size = max((place.world_size or 0 for place in found), default=0)
    gone = set(range(size)) - {place.number for place in found}
    bare = gone & {rank for place in found for rank in place.left_out}
    parts = [f"{_listed(gone - bare)} missing"] if gone - bare else []
    parts += [f"{_listed(bare)} not profiled (--ranks)"] if bare else []
    return f"{len(found)} of {size} ranks are there: {', '.join(parts)}" if parts else ""


def _listed(numbers: set[int]) -> str:
    """Write numbers as --ranks takes them: 0-3,8."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def processes(capture: Capture) -> list[Member]:
    """Take every process of a capture that used a GPU as a rank; where none did, all that had NVTX ranges."""
    kinds = [kind for kind in KINDS if capture.has(kind)]
    fields = dict.fromkeys(kinds, "global_pid") or {"nvtx": "global_tid"}
    ids = [capture.columns(kind, field)[field] for kind, field in fields.items() if capture.has(kind)]
    found = np.unique(process_ids(np.concatenate(ids))) if ids else np.empty(0, np.int64)
    selection = capture.view.selection
    return [
        Member(f"process {pid}", None, capture.viewed(selection=replace(selection, processes=(pid,))))
        for pid in found[found != MISSING].tolist()
    ]


def hosts(members: Sequence[Member]) -> Mapping[str, Any]:
    """Return the hosts the ranks ran on, as far as their folders say, with the number of ranks of each."""
    return Counter(member.host for member in members if member.host)
