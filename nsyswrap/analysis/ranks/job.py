"""Compute what each rank of a job did on its GPU, when it waited, and how well the ranks' clocks agree.

Every session records its start in UTC, in ns. Times of captures from several hosts are only as comparable as
the clocks of the hosts. The kernels of a matched collective end together, so their ends show the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, gpu_operations_of
from nsyswrap.analysis.ranks.collectives import CollectiveMatches, communicates, match
from nsyswrap.analysis.ranks.members import RankCapture
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.open import open_export


def offsets_ns(job: RankJob) -> NDArray[Any] | None:
    """Return the ns to add to each rank's times for a common zero; None if a session start is missing."""
    epochs: dict[str, int | None] = {}
    for member in job.members:
        path = member.capture.path
        if str(path) not in epochs:
            rows = open_export(path).select(schema.SESSION_START, ("utcEpochNs", "end"), required=False)
            epochs[str(path)] = rows[0][0] if rows else None
    by_member = [epochs[str(member.capture.path)] for member in job.members]
    known = [epoch for epoch in by_member if epoch is not None]
    if len(known) < len(by_member):
        return None
    return np.array([epoch - min(known) for epoch in known])


def lateness_ns(job: RankJob, offsets: NDArray[Any]) -> list[NDArray[Any]]:
    """Return for each rank the time by which it arrived after the first one at each collective, in ns."""
    parts: list[list[NDArray[Any]]] = [[np.empty(0, np.int64)] for _ in job.members]
    for group in job.matched.groups:
        starts = group.start_ns + offsets[list(group.ranks)][:, None]
        for number, late in zip(group.ranks, starts - starts.min(axis=0), strict=True):
            parts[number].append(late)
    return [np.concatenate(of_member) for of_member in parts]


def ends_apart_ns(job: RankJob, offsets: NDArray[Any]) -> NDArray[Any]:
    """Return how far the ends of each matched collective are apart, in ns: the error of the clocks."""
    spreads = [np.empty(0, np.int64)]
    for group in job.matched.groups:
        ends = group.end_ns + offsets[list(group.ranks)][:, None]
        spreads.append(ends.max(axis=0) - ends.min(axis=0))
    return np.concatenate(spreads)


@dataclass(frozen=True)
class GpuTimes:
    """One entry per GPU operation, by start; times in ns.

    ``launched_ns`` is the start of the launch call, MISSING without one. ``own_ns`` is the duration of an
    operation that does not communicate. ``waiting_ns`` is the part of ``communication_ns`` spent waiting for
    other ranks.
    """

    launched_ns: NDArray[Any]
    own_ns: NDArray[Any]
    communication_ns: NDArray[Any]
    waiting_ns: NDArray[Any]


@dataclass(frozen=True)
class RankJob:
    """The ranks of a job, in order of rank."""

    members: tuple[RankCapture, ...]

    @cached_property
    def matched(self) -> CollectiveMatches:
        """The matched collectives of all ranks."""
        return match(self.members)

    @cached_property
    def times(self) -> list[GpuTimes]:
        """The selected GPU work of each rank."""
        return [self._times(number, member.capture) for number, member in enumerate(self.members)]

    @cached_property
    def all_times(self) -> list[GpuTimes]:
        """All GPU work of each rank, selected or not."""
        return [self._times(number, member.everything) for number, member in enumerate(self.members)]

    def _times(self, number: int, capture: Capture) -> GpuTimes:
        everything = self.members[number].everything
        operations = gpu_operations_of(capture)
        duration_ns = operations.end_ns - operations.start_ns
        communication, waiting = np.zeros_like(duration_ns), np.zeros_like(duration_ns)
        kernels = np.flatnonzero(operations.kind == KINDS.index(KERNEL))
        if len(kernels):
            rows = everything.columns("kernel", "row")["row"] - 1
            at = np.searchsorted(rows, operations.row[kernels])
            communication[kernels] = np.where(communicates(everything)[at], duration_ns[kernels], 0)
            waiting[kernels] = self.matched.waiting_by_kernel(number, len(rows))[at]
        launched = _call_starts(capture, operations.call)
        return GpuTimes(launched, duration_ns - communication, communication, waiting)

    def name(self, number: int) -> int | str:
        """Return the name of a member in tables: its rank, or its label if not all members have a rank."""
        rank = self.members[number].number if self.numbered else None
        return self.members[number].label if rank is None else rank

    @cached_property
    def numbered(self) -> bool:
        """Whether the rank number of every member is known."""
        return all(member.number is not None for member in self.members)

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """Notes for every table over the ranks."""
        graphs = sum(member.capture.count("graph") for member in self.members)
        hidden = [Note("graphs_hide_kernels", {"graphs": graphs})] if graphs else []
        return (*self.matched.notes, *hidden)

    @property
    def selection(self) -> str:
        """The selection of the captures, as text; different processes are left out of it."""
        first = self.members[0].capture.view.selection
        several = len({member.capture.view.selection.processes for member in self.members}) > 1
        selection = replace(first, processes=()) if several else first
        return selection.text(self.members[0].capture.window) if selection.narrows else ""


def make_job(members: Sequence[RankCapture]) -> RankJob:
    """Return a job of ranks whose selections keep rows whole instead of clipping them."""
    return RankJob(tuple(replace(member, capture=_whole_rows(member.capture)) for member in members))


def _whole_rows(capture: Capture) -> Capture:
    selection = capture.view.selection
    return capture.viewed(selection=replace(selection, clip=False)) if selection.windowed else capture


def _call_starts(capture: Capture, call: NDArray[Any]) -> NDArray[Any]:
    if not capture.whole.has("api"):
        return np.full(len(call), MISSING)
    start = capture.whole.columns("api", "start_ns")["start_ns"]
    return np.where(call < 0, MISSING, start[call])
