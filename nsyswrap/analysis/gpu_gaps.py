"""When a process had nothing running on a device, and what its host was doing meanwhile.

A gap ends with an operation, and the thread whose call launched that one is looked at: until that call it was
in a waiting, allocating, loading or other call, or outside of all calls; from then on the launch was under
way, until the operation started. Where the call had returned before the gap began, or long before the
operation started, that was queued: it waited for another device, for another process, or for the GPU itself.
No call launches the migrations of unified memory: a host or a prefetch made them necessary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from nsyswrap.analysis.api_call_kinds import CLASSES, LAUNCH, OTHER, call_classes
from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.arrays.intervals import gaps, union
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, KINDS, gpu_operations_of, window
from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture

    Arrays = dict[str, NDArray[Any]]
    Times = tuple[NDArray[Any], NDArray[Any]]  # starts and ends, or two marks

# The causes, as keys and as a person reads them. The first counts where several hold at once.
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
_INSIDE_A_LAUNCH = _IN_A_THREAD[:2]  # what counts more than the launch that it happens in
# To an idle GPU that nothing else wants, an operation comes within a few µs after its call's return.
_LATENCY_NS = 10_000
_QUEUE_FULL = 8  # overheadType: a launch waits for room in the queue


@dataclass(frozen=True)
class Gaps:
    """One entry per gap, by process and device, then in order of time; times in ns.

    ``before`` and ``after`` are the positions in ``operations`` (all of the whole capture) of what ran on
    both sides, be it selected or not; -1: nothing did. ``thread`` is the one whose call launched ``after``
    (MISSING: not known), ``launch_ns`` the start of that call. ``parts`` is the time each of CAUSES took;
    they add up to the gap.
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
        """How long each gap is."""
        return self.end_ns - self.start_ns  # type: ignore[no-any-return]

    @property
    def call(self) -> NDArray[Any]:
        """Position of the call that launched what came after each gap; -1: none is recorded."""
        calls = np.append(self.operations.call, -1)  # where nothing came after, -1 finds the one appended
        return calls[self.after]  # type: ignore[no-any-return]

    @property
    def cause(self) -> NDArray[Any]:
        """The number in CAUSES of what took most of each gap."""
        if not len(self):
            return np.empty(0, np.int64)
        longest: NDArray[Any] = np.argmax(np.stack([self.parts[cause] for cause in CAUSES]), axis=0)
        return longest


_known: WeakKeyDictionary[Capture, Gaps] = WeakKeyDictionary()


def gaps_of(capture: Capture) -> Gaps:
    """Return the gaps within each process' window on each device; whole graphs count as work."""
    if capture not in _known:
        _known[capture] = _idle(capture)
    return _known[capture]


def _idle(capture: Capture) -> Gaps:
    selected, operations = gpu_operations_of(capture), gpu_operations_of(capture.whole)
    place = _places(selected, operations)
    found = []
    for process, device, rows in selected.by_device():
        mine = selected.of(rows)
        part = _gaps(mine, place[rows], window(capture, mine))
        _look_outside(part, operations, process, device)
        part["global_pid"], part["device_id"] = (np.full_like(part["end_ns"], i) for i in (process, device))
        found.append(part)
    names = ("global_pid", "device_id", "start_ns", "end_ns", "before", "after")
    gap = {name: np.concatenate([np.empty(0, np.int64), *(part[name] for part in found)]) for name in names}
    thread, launch_ns, parts = _causes(capture.whole, operations, gap)
    return Gaps(operations=operations, **gap, thread=thread, launch_ns=launch_ns, parts=parts)


def _places(selected: GpuOperations, operations: GpuOperations) -> NDArray[Any]:
    """Return the positions of selected operations among all."""
    first = np.concatenate(([0], np.cumsum(np.bincount(operations.kind, minlength=len(KINDS)))))
    place = np.empty(len(operations), np.int64)
    place[first[operations.kind] + operations.row] = np.arange(len(operations))
    return place[first[selected.kind] + selected.row]  # type: ignore[no-any-return]


def _gaps(mine: GpuOperations, place: NDArray[Any], ends: tuple[int, int]) -> Arrays:
    """Return the gaps between operations, and between them and the ends of their window."""
    first, last = ([end] for end in ends)
    start, end = (np.concatenate((first, times, last)) for times in (mine.start_ns, mine.end_ns))
    beside = np.concatenate(([-1], place, [-1]))
    left, right = gaps(start, end)
    return {"start_ns": end[left], "end_ns": start[right], "before": beside[left], "after": beside[right]}


def _look_outside(gap: Arrays, operations: GpuOperations, process: int, device: int) -> None:
    """Put in what ran before the first gap and after the last one, where it is not selected."""
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
    """Return the thread that launched what followed each gap, when, and the time each cause took."""
    rows = len(gap["start_ns"])
    thread, launch_ns = np.full(rows, MISSING), np.full(rows, MISSING)
    parts = {cause: np.zeros(rows, np.int64) for cause in CAUSES}
    # -1, after the last operation, is what is appended.
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
        launches |= call_classes(whole)[after.call] == CLASSES.index(LAUNCH)  # the copies of graphs too
        queued = (span[1] <= ends[0]) | (after.start_ns - span[1] > _LATENCY_NS)
        for cause, taken in _explain(_Timeline(whole, thread[known]), ends, span, (queued, launches)).items():
            parts[cause][known] = taken
    return thread, launch_ns, parts


def _explain(timeline: _Timeline, gap: Times, call: Times, marks: Times) -> Arrays:
    """Return the parts of gaps; ``call`` is the one that launched what came after.

    ``marks`` are on gaps whose next operation had been launched, and on those whose call launches.
    """
    (start, end), (queued, launches) = gap, marks
    begun, returned = (np.clip(times, start, end) for times in call)
    found = timeline.split(start, begun, _IN_A_THREAD)
    found["host"] = begun - start - sum(found.values())
    found["queued"] = np.where(queued, end - returned, 0)
    under_way = end - begun - found["queued"]
    for cause, taken in timeline.split(begun, returned, _INSIDE_A_LAUNCH).items():
        found[cause] += taken
        under_way -= taken
    found["launch"] += np.where(launches, under_way, 0)
    found["copy"] += np.where(launches, 0, under_way)
    return found


class _Timeline:
    """What threads were doing: covers of time on one axis, on which they lie one behind another."""

    def __init__(self, whole: Capture, thread: NDArray[Any]) -> None:
        """Take the thread of each interval that will be asked for."""
        threads, self._number = distinct(thread)
        cause, doing, start, end = _activities(whole)
        rows = np.flatnonzero(np.isin(doing, threads))
        self._low, self._high = int(start[rows].min()), int(end[rows].max())
        number = np.searchsorted(threads, doing[rows])
        start, end = (self._place(times[rows], number) for times in (start, end))
        self._covers = {}
        for i, name in enumerate(_IN_A_THREAD):  # calls lie in each other, and time counts once
            outranking = cause[rows] <= i
            self._covers[name] = union(start[outranking], end[outranking])

    def _place(self, times: NDArray[Any], number: NDArray[Any]) -> NDArray[Any]:
        length = self._high - self._low + 1  # between two threads there is 1 ns of nothing
        return np.clip(times, self._low, self._high) - self._low + number * length  # type: ignore[no-any-return]

    def split(self, start: NDArray[Any], end: NDArray[Any], causes: tuple[str, ...]) -> Arrays:
        """Return how much of each interval these first causes take, each without those before it."""
        start, end = (self._place(times, self._number) for times in (start, end))
        found, before = {}, np.zeros_like(start)
        for cause in causes:
            taken = self._covers[cause].within(start, end)
            found[cause], before = taken - before, taken
        return found


def _activities(whole: Capture) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return what threads did, as the number of a cause, and the thread, start and end of each."""
    of_class = np.array([_IN_A_THREAD.index("call" if name == OTHER else name) for name in CLASSES])
    fields = ("global_tid", "start_ns", "end_ns")
    parts = [(of_class[call_classes(whole)], whole.columns("api", *fields))]
    if whole.has("overhead"):
        events = whole.columns("overhead", *fields)
        parts.append((np.full(whole.count("overhead"), _IN_A_THREAD.index("profiler")), events))
    if whole.has("cuda_overhead"):  # what CUDA does without nsys too: it compiles and loads
        events = whole.columns("cuda_overhead", *fields, "overhead_type")
        waits = events["overhead_type"] == _QUEUE_FULL
        parts.append((np.where(waits, *map(_IN_A_THREAD.index, ("launch", "load"))), events))
    causes = np.concatenate([cause for cause, _ in parts])
    thread, start, end = (np.concatenate([events[field] for _, events in parts]) for field in fields)
    return causes, thread, start, end
