"""Find the ranks of one job: run folders of a launch, captures of ranks, or processes of one capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nsyswrap.analysis.gpu_operations import KINDS
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import UsageError
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_facts import gpu_users_of
from nsyswrap.base.run_folder import EXPORT, REPORT, RunFolder, rank_in
from nsyswrap.base.text import natural_key, shortest_labels
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.open import Identity, identity_of
from nsyswrap.capture.selection import EVERYTHING, process_ids


@dataclass(frozen=True)
class RankLocation:
    """The path of a rank's capture, and the facts on the rank from its run.json.

    ``number`` is the rank, None if unknown. ``left_out`` has the ranks that ran without nsys. ``started`` is
    the start of the run as an ISO time in UTC.
    """

    path: Path
    label: str
    number: int | None = None
    world_size: int | None = None
    left_out: tuple[int, ...] = ()
    host: str = ""
    started: str = ""


@dataclass(frozen=True)
class RankCapture:
    """One rank and its capture, in the requested view."""

    label: str
    number: int | None
    capture: Capture
    host: str = ""

    @property
    def everything(self) -> Capture:
        """The rank's capture with everything selected; of a capture of several ranks, only its process."""
        processes = self.capture.view.selection.processes
        return self.capture.viewed(selection=replace(EVERYTHING, processes=processes))


def places(captures: Sequence[Path]) -> list[RankLocation]:
    """Return the places of the captures, by rank. If some name no rank, all are by label.

    Raises UsageError if two captures have the same rank, or if some are of an older launch than the newest.
    """
    labels = shortest_labels(captures)
    ranks = list(map(_location, captures))
    twice = [number for number, count in Counter(location.number for location in ranks).items() if count > 1]
    if None not in twice and twice:
        both = " and ".join(str(location.path) for location in ranks if location.number == twice[0])
        raise UsageError(f"{both}: both are rank {twice[0]}", "name the captures of one launch")
    if any(location.number is None for location in ranks):
        unnamed = [replace(one, number=None, label=label) for one, label in zip(ranks, labels, strict=True)]
        return sorted(unnamed, key=lambda location: natural_key(location.label))
    _check_one_launch(ranks)
    return sorted(ranks, key=lambda location: location.number or 0)


def rank_of(capture: Path) -> int | None:
    """Return the rank that the run folder or the name of a capture tells; or None."""
    return _location(capture).number


def check_different(ranks: Sequence[RankLocation]) -> None:
    """Raise UsageError if two ranks are the same capture, or a copy of it."""
    first: dict[Identity, RankLocation] = {}
    for place in ranks:
        identity = identity_of(place.path)
        same = first.setdefault(identity, place) if identity else place
        if same is not place:
            raise UsageError(
                f"{same.path} and {place.path} are the same capture, and not two ranks",
                "name the captures of one launch",
            )


def _check_one_launch(ranks: Sequence[RankLocation]) -> None:
    """Raise UsageError if the world sizes or the profiled ranks differ between the captures.

    A launch of fewer ranks into the folder of an earlier one leaves the other ranks of that one behind.
    """
    sized = [location for location in ranks if location.world_size]
    newest = max(sized, key=lambda location: location.started, default=None)
    if not newest:
        return
    stale = [
        location
        for location in sized
        if (location.world_size, location.left_out) != (newest.world_size, newest.left_out)
    ]
    if stale:
        names = ", ".join(str(location.path) for location in stale)
        raise UsageError(
            f"ranks of several launches: {names} {('is' if len(stale) == 1 else 'are')} not of the "
            f"launch of {newest.path} ({_world(newest)})",
            "remove the folders of earlier launches, or name the ranks of one launch",
        )


def _world(location: RankLocation) -> str:
    bare = f", without nsys on {listed(set(location.left_out))}" if location.left_out else ""
    return f"{location.world_size} ranks{bare}"


def _location(path: Path) -> RankLocation:
    home = path.parent if path.name in (EXPORT, REPORT) else path
    run = RunFolder(home).read_run()
    rank = run.get("rank", {})
    number = rank.get("rank", rank_in(home.name))
    world_size = rank.get("world_size")
    profiled = rank.get("profiled")
    left_out = () if profiled is None else tuple(sorted(set(range(world_size or 0)) - set(profiled)))
    host, started = (str(run.get(key, "")) for key in ("host", "started"))
    return RankLocation(path, f"rank {number}", number, world_size, left_out, host, started)


def listed(numbers: set[int]) -> str:
    """Return numbers in the form of --ranks: 0-3,8."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def processes(capture: Capture) -> list[RankCapture]:
    """Return each process that used a GPU as a rank; if none did, each process with NVTX ranges.

    They have the ranks that their launcher gave them, if run.json has a different one for each.
    """
    kinds = [kind for kind in KINDS if capture.has(kind)]
    fields = dict.fromkeys(kinds, "global_pid") or {"nvtx": "global_tid"}
    ids = [capture.columns(kind, field)[field] for kind, field in fields.items() if capture.has(kind)]
    pids = np.unique(process_ids(np.concatenate(ids))) if ids else np.empty(0, np.int64)
    selection = capture.view.selection
    known = pids[pids != MISSING].tolist()
    users = gpu_users_of(capture.run_facts)
    ranks = {user.pid: user.rank for user in users or ()}
    by_pid = {pid: ranks.get(pid) for pid in known}
    named = None not in by_pid.values() and len(set(by_pid.values())) == len(known)
    members = [
        RankCapture(
            f"rank {by_pid[pid]}" if named else f"process {pid}",
            by_pid[pid] if named else None,
            capture.viewed(selection=replace(selection, processes=(pid,))),
        )
        for pid in known
    ]
    return sorted(members, key=lambda member: member.number or 0) if named else members


def hosts(members: Sequence[RankCapture]) -> Mapping[str, Any]:
    """Return the number of ranks on each host that the run folders name."""
    return Counter(member.host for member in members if member.host)
