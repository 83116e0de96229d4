"""Find the gaps in which a process ran nothing on a device, and what the host did in them.

A gap ends with an operation, whose launch call was made by one thread. Before that call, the thread was in
synchronizing, allocating, loading or other calls, or outside all calls. From the start of that call to the
start of the operation, the launch was under way. If the call returned before the gap began, or long before
the operation started, the operation was queued: it waited for another device, another process, or the GPU
itself. Migrations of unified memory have no launch call: page faults or prefetches cause them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.api_call_kinds import CLASSES, LAUNCH, OTHER, call_classes
from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.arrays.intervals import gaps, union
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, KINDS, gpu_operations_of, window
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.per_capture import per_capture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture

    Arrays = dict[str, NDArray[Any]]
    Times = tuple[NDArray[Any], NDArray[Any]]  # starts and ends, or two marks

# The causes and their texts. If several hold at once, the first counts.
CAUSES = {
    "profiler": "profiler overhead",
    "load": "loading a module or context",
    "allocate": "allocating or freeing memory",
    "synchronise": "waiting in a synchronise",
    "launch": "inside a launch",
    "copy": "inside a copy or memset call",
    "call": "inside another CUDA call",
    "host": "host doing something else",
    "queued": "launched already: a dependency, or the GPU's own latency",
    "migration": "until unified memory moved pages",
    "unknown": "not known: no recorded call launched what followed",
}
_IN_A_THREAD = tuple(CAUSES)[:7]
_INSIDE_A_LAUNCH = _IN_A_THREAD[:2]  # these count even during a launch
# On an idle GPU an operation starts within a few µs after its call returned.
_LATENCY_NS = 10_000
_QUEUE_FULL = 8  # overheadType of a launch that waits for room in the queue


@dataclass(frozen=True)
class Gaps:
    """One entry per gap, by process and device, then by time; times in ns.

    ``before`` and ``after`` are the positions of the operations on both sides, selected or not, in
    ``operations`` (all of the whole capture); -1 without one. ``thread`` made the call that launched
    ``after``, MISSING if unknown; ``launch_ns`` is the start of that call. ``parts`` has the time of each of
    CAUSES, which add up to the gap.
    """

    operations: GpuOperations
    global_pid: NDArray[Any]
    device_id: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    before: NDArray[Any]
    after: NDArray[Any]
    thread: NDArray[Any]
    launch_ns: NDArray[Any]
    parts: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        """Return the number of gaps."""
        return len(self.start_ns)

    @property
    def duration_ns(self) -> NDArray[Any]:
        """The duration of each gap in ns."""
        return self.end_ns - self.start_ns  # type: ignore[no-any-return]

    @property
    def call(self) -> NDArray[Any]:
        """Position of the call that launched the operation after each gap; -1 if none is recorded."""
        calls = np.append(self.operations.call, -1)  # for -1 in after
        return calls[self.after]  # type: ignore[no-any-return]

    @property
    def cause(self) -> NDArray[Any]:
        """The number in CAUSES of the largest part of each gap."""
        if not len(self):
            return np.empty(0, np.int64)
        longest: NDArray[Any] = np.argmax(np.stack([self.parts[cause] for cause in CAUSES]), axis=0)
        return longest


@per_capture
def gaps_of(capture: Capture) -> Gaps:
    """Return the gaps in the window of each process on each device; whole-graph executions count as busy."""
    selected, operations = gpu_operations_of(capture), gpu_operations_of(capture.whole)
    place = _places(selected, operations)
    by_device = []
    for process, device, rows in selected.by_device():
        mine = selected.of(rows)
        part = _gaps(mine, place[rows], window(capture, mine))
        _add_unselected(part, operations, process, device)
        part["global_pid"], part["device_id"] = (np.full_like(part["end_ns"], i) for i in (process, device))
        by_device.append(part)
    names = ("global_pid", "device_id", "start_ns", "end_ns", "before", "after")
    gap = {
        name: np.concatenate([np.empty(0, np.int64), *(part[name] for part in by_device)]) for name in names
    }
    thread, launch_ns, parts = _causes(capture.whole, operations, gap)
    return Gaps(operations=operations, **gap, thread=thread, launch_ns=launch_ns, parts=parts)


def _places(selected: GpuOperations, operations: GpuOperations) -> NDArray[Any]:
    """Return the positions of the selected operations among all."""
    first = np.concatenate(([0], np.cumsum(np.bincount(operations.kind, minlength=len(KINDS)))))
    place = np.empty(len(operations), np.int64)
    place[first[operations.kind] + operations.row] = np.arange(len(operations))
    return place[first[selected.kind] + selected.row]  # type: ignore[no-any-return]


def _gaps(mine: GpuOperations, place: NDArray[Any], ends: tuple[int, int]) -> Arrays:
    """Return the gaps between operations, and between them and both ends of the window."""
    first, last = ([end] for end in ends)
    start, end = (np.concatenate((first, times, last)) for times in (mine.start_ns, mine.end_ns))
    beside = np.concatenate(([-1], place, [-1]))
    left, right = gaps(start, end)
    return {"start_ns": end[left], "end_ns": start[right], "before": beside[left], "after": beside[right]}


def _add_unselected(gap: Arrays, operations: GpuOperations, process: int, device: int) -> None:
    """Fill in the unselected operations before the first gap and after the last one."""
    if (np.minimum(gap["before"], gap["after"]) >= 0).all():
        return
    rows = np.flatnonzero((operations.global_pid == process) & (operations.device_id == device))
    for i in np.flatnonzero(gap["before"] < 0):
        earlier = rows[operations.end_ns[rows] <= gap["start_ns"][i]]
        gap["before"][i] = earlier[operations.end_ns[earlier].argmax()] if len(earlier) else -1
    for i in np.flatnonzero(gap["after"] < 0):
        later = rows[operations.start_ns[rows] >= gap["end_ns"][i]]
        gap["after"][i] = later[0] if len(later) else -1


def _causes(
    whole: Capture, operations: GpuOperations, gap: Arrays
) -> tuple[NDArray[Any], NDArray[Any], dict[str, NDArray[Any]]]:
    """Return the thread and start of the call that ended each gap, and the time of each cause."""
    rows = len(gap["start_ns"])
    thread, launch_ns = np.full(rows, MISSING), np.full(rows, MISSING)
    parts = {cause: np.zeros(rows, np.int64) for cause in CAUSES}
    # The appended entry is for -1: no operation after the gap.
    call = np.append(operations.call, -1)[gap["after"]]
    moves = np.append(operations.migration, False)[gap["after"]]
    parts["migration"] = np.where(moves, gap["end_ns"] - gap["start_ns"], 0)
    parts["unknown"] = np.where((call < 0) & ~moves, gap["end_ns"] - gap["start_ns"], 0)
    known = np.flatnonzero(call >= 0)
    if len(known):
        api = whole.columns("api", "start_ns", "end_ns", "global_tid")
        thread[known], launch_ns[known] = (api[name][call[known]] for name in ("global_tid", "start_ns"))
        ends = gap["start_ns"][known], gap["end_ns"][known]
        span = launch_ns[known], api["end_ns"][call[known]]
        after = operations.of(gap["after"][known])
        launches = np.isin(after.kind, (KINDS.index(KERNEL), KINDS.index(GRAPH)))
        # A launch call can also start copies, which are nodes of its graph.
        launches |= call_classes(whole)[after.call] == CLASSES.index(LAUNCH)
        queued = (span[1] <= ends[0]) | (after.start_ns - span[1] > _LATENCY_NS)
        for cause, taken in _explain(_Timeline(whole, thread[known]), ends, span, (queued, launches)).items():
            parts[cause][known] = taken
    return thread, launch_ns, parts


def _explain(timeline: _Timeline, gap: Times, call: Times, marks: Times) -> Arrays:
    """Return the parts of gaps; ``call`` has start and end of the calls that launched the next operations.

    ``marks`` has two arrays: gaps whose next operation was queued, and gaps whose call is a launch.
    """
    (start, end), (queued, launches) = gap, marks
    begun, returned = (np.clip(times, start, end) for times in call)
    parts = timeline.split(start, begun, _IN_A_THREAD)
    parts["host"] = begun - start - sum(parts.values())
    parts["queued"] = np.where(queued, end - returned, 0)
    under_way = end - begun - parts["queued"]
    for cause, taken in timeline.split(begun, returned, _INSIDE_A_LAUNCH).items():
        parts[cause] += taken
        under_way -= taken
    parts["launch"] += np.where(launches, under_way, 0)
    parts["copy"] += np.where(launches, 0, under_way)
    return parts


class _Timeline:
    """The activities of threads: one cover per cause, with the threads one after another on one axis."""

    def __init__(self, whole: Capture, thread: NDArray[Any]) -> None:
        """Take the thread of each interval that ``split`` will get."""
        threads, self._number = distinct(thread)
        cause, active, start, end = _activities(whole)
        rows = np.flatnonzero(np.isin(active, threads))
        self._low, self._high = int(start[rows].min()), int(end[rows].max())
        number = np.searchsorted(threads, active[rows])
        start, end = (self._place(times[rows], number) for times in (start, end))
        self._covers = {}
        for i, name in enumerate(_IN_A_THREAD):  # calls nest, and time counts once
            up_to_here = cause[rows] <= i
            self._covers[name] = union(start[up_to_here], end[up_to_here])

    def _place(self, times: NDArray[Any], number: NDArray[Any]) -> NDArray[Any]:
        length = self._high - self._low + 1  # keeps 1 ns between two threads
        return np.clip(times, self._low, self._high) - self._low + number * length  # type: ignore[no-any-return]

    def split(self, start: NDArray[Any], end: NDArray[Any], causes: tuple[str, ...]) -> Arrays:
        """Return the time of the given first causes in each interval, each without the causes before it."""
        start, end = (self._place(times, self._number) for times in (start, end))
        parts, before = {}, np.zeros_like(start)
        for cause in causes:
            taken = self._covers[cause].within(start, end)
            parts[cause], before = taken - before, taken
        return parts


def _activities(whole: Capture) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the number of the cause, the thread, the start and the end of each activity."""
    of_class = np.array([_IN_A_THREAD.index("call" if name == OTHER else name) for name in CLASSES])
    fields = ("global_tid", "start_ns", "end_ns")
    parts = [(of_class[call_classes(whole)], whole.columns("api", *fields))]
    if whole.has("overhead"):
        events = whole.columns("overhead", *fields)
        parts.append((np.full(whole.count("overhead"), _IN_A_THREAD.index("profiler")), events))
    if whole.has("cuda_overhead"):  # compiling and loading, which CUDA also does without nsys
        events = whole.columns("cuda_overhead", *fields, "overhead_type")
        waits = events["overhead_type"] == _QUEUE_FULL
        parts.append((np.where(waits, *map(_IN_A_THREAD.index, ("launch", "load"))), events))
    causes = np.concatenate([cause for cause, _ in parts])
    thread, start, end = (np.concatenate([events[field] for _, events in parts]) for field in fields)
    return causes, thread, start, end
