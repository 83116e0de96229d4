"""One job over its ranks: what each rank did on its GPU, when it waited, and how well their clocks agree.

Every session records its start in ns of UTC. Times of captures from several hosts are as comparable as the
clocks of these hosts. The ends of a matched collective are one moment, so they show the error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, gpu_operations_of
from nsyswrap.analysis.ranks.collectives import Matched, communicates, match
from nsyswrap.analysis.ranks.members import hosts
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import duration
from nsyswrap.capture import schema
from nsyswrap.capture.export import Export

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.ranks.members import Member
    from nsyswrap.capture.capture import Capture


def offsets_ns(job: Job) -> NDArray[Any] | None:
    """Return what to add to each rank's times for one zero of all; None where a start is not said."""
    epochs: dict[str, int | None] = {}
    for member in job.members:
        path = member.capture.path
        if str(path) not in epochs:
            said = Export(path).select(schema.SESSION_START, "utcEpochNs")
            epochs[str(path)] = said[0][0] if said else None
    found = [epochs[str(member.capture.path)] for member in job.members]
    known = [epoch for epoch in found if epoch is not None]
    if len(known) < len(found):
        return None
    return np.array([epoch - min(known) for epoch in known])


def lateness_ns(job: Job, offsets: NDArray[Any]) -> list[NDArray[Any]]:
    """Return, for each rank, how much later than the first it came to each of its collectives."""
    found: list[list[NDArray[Any]]] = [[np.empty(0, np.int64)] for _ in job.members]
    for group in job.matched.groups:
        starts = group.start_ns + offsets[list(group.ranks)][:, None]
        for number, late in zip(group.ranks, starts - starts.min(axis=0), strict=True):
            found[number].append(late)
    return [np.concatenate(parts) for parts in found]


def note(job: Job, offsets: NDArray[Any] | None) -> str:
    """Say how far the ends of matched collectives lie apart; empty without any."""
    if offsets is None:
        return (
            "not every capture says when its session began: no arrival times (waiting needs no common clock)"
        )
    spreads = [np.empty(0, np.int64)]
    for group in job.matched.groups:
        ends = group.end_ns + offsets[list(group.ranks)][:, None]
        spreads.append(ends.max(axis=0) - ends.min(axis=0))
    apart = np.concatenate(spreads)
    if not len(apart):
        return ""
    found = hosts(job.members)
    where = f", on {len(found)} hosts, whose clocks differ" if len(found) > 1 else ""
    lie = f"{duration(np.median(apart))} apart (median; at most {duration(apart.max())})"
    return (
        f"aligned on the sessions' epochs{where}: the ends of a collective lie {lie}; arrival times are "
        "known as well as that, waiting needs no common clock"
    )


@dataclass(frozen=True)
class GpuTimes:
    """One entry per operation on the GPU, in order of start; times in ns.

    ``own_ns`` is what does not communicate, ``waiting_ns`` the part of ``communication_ns`` that waits for
    other ranks. ``launched_ns`` is when the call began that launched it; MISSING where there is none.
    """

    launched_ns: NDArray[Any]
    own_ns: NDArray[Any]
    communication_ns: NDArray[Any]
    waiting_ns: NDArray[Any]


@dataclass(frozen=True)
class Job:
    """The ranks of a job, in their order."""

    members: tuple[Member, ...]

    @cached_property
    def matched(self) -> Matched:
        """The collectives of all ranks."""
        return match(self.members)

    @cached_property
    def times(self) -> list[GpuTimes]:
        """What each rank did on its GPU, as far as it is selected."""
        return [self._times(number, member.capture) for number, member in enumerate(self.members)]

    @cached_property
    def all_times(self) -> list[GpuTimes]:
        """What each rank did on its GPU, whatever is selected."""
        return [self._times(number, member.everything) for number, member in enumerate(self.members)]

    def _times(self, number: int, capture: Capture) -> GpuTimes:
        everything = self.members[number].everything
        done = gpu_operations_of(capture)
        lasting = done.end_ns - done.start_ns
        communication, waiting = np.zeros_like(lasting), np.zeros_like(lasting)
        kernels = np.flatnonzero(done.kind == KINDS.index(KERNEL))
        if len(kernels):
            rows = everything.columns("kernel", "row")["row"] - 1
            at = np.searchsorted(rows, done.row[kernels])
            communication[kernels] = np.where(communicates(everything)[at], lasting[kernels], 0)
            waiting[kernels] = self.matched.waiting_by_kernel(number, len(rows))[at]
        return GpuTimes(_launched(capture, done.call), lasting - communication, communication, waiting)

    def name(self, number: int) -> int | str:
        """Return what a table calls a member: its rank, or its label where not all have one."""
        found = self.members[number].number if self.numbered else None
        return self.members[number].label if found is None else found

    @cached_property
    def numbered(self) -> bool:
        """Whether all ranks are known by their number."""
        return all(member.number is not None for member in self.members)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader of any table over the ranks has to know."""
        graphs = sum(member.capture.count("graph") for member in self.members)
        hidden = f"{graphs:,} whole-graph executions hide their kernels, collectives too: --graphs node"
        return (*self.matched.notes, *([hidden] if graphs else []))

    @property
    def selection(self) -> str:
        """What is selected of the captures."""
        first = self.members[0].capture.view.selection
        several = len({member.capture.view.selection.processes for member in self.members}) > 1
        return str(replace(first, processes=()) if several else first)


def make_job(members: Sequence[Member]) -> Job:
    """Return a job of ranks, with whole rows: what a selection touches counts to its full length."""
    return Job(tuple(replace(member, capture=_whole_rows(member.capture)) for member in members))


def _whole_rows(capture: Capture) -> Capture:
    selection = capture.view.selection
    return capture.viewed(selection=replace(selection, clip=False)) if selection.windowed else capture


def _launched(capture: Capture, call: NDArray[Any]) -> NDArray[Any]:
    if not capture.whole.has("api"):
        return np.full(len(call), MISSING)
    start = capture.whole.columns("api", "start_ns")["start_ns"]
    return np.where(call < 0, MISSING, start[call])
