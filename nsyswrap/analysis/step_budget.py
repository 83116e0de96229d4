"""Split time into what a device did for a process: compute, exposed communication or copies, idle by cause.

Each nanosecond has one state. If several hold, the first in this order counts:

1. compute, by kernel class in the order of ``COMPUTE``; a whole-graph execution counts after the classes
2. communication kernels; with no compute at the same time they are exposed
3. copies and migrations of unified memory, then memsets
4. idle, by the cause that ``gpu_gaps`` gives. An operation that was launched already, or whose launch is not
   known, may have waited for another process of the capture that used the device: that has its own cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_gaps import CAUSES, Gaps, gaps_of
from nsyswrap.analysis.gpu_operations import (
    GRAPH,
    KERNEL,
    KINDS,
    MEMCPY,
    MEMSET,
    GpuOperations,
    gpu_operations_of,
    owners_of_gpus,
    windows,
)
from nsyswrap.analysis.kernel_names import CLASSES, OTHER
from nsyswrap.analysis.names import kernel_classes
from nsyswrap.analysis.range_texts import gil_parts
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import NOTHING, IntervalSet, difference, intersection, joined, union
from nsyswrap.capture.schema import SPANS

COMMUNICATION, COPY, OTHER_PROCESS = "communication", "copy", "other_process"
# Copy calls while the GPU idles have the cause "copy", so the state of a busy GPU is called otherwise.
COMPUTE = (*(f"{name}_kernel" for name in CLASSES if name != COMMUNICATION), GRAPH)
BUSY = (*COMPUTE, COMMUNICATION, MEMCPY, MEMSET)
IDLE = (*CAUSES, OTHER_PROCESS)
STATES = (*BUSY, *(f"idle_{cause}" for cause in IDLE))
_WAITING = ("queued", "unknown")  # causes during which another process may have used the device

KERNELS = tuple(state for state in COMPUTE if state != GRAPH)
OTHER_KERNELS = f"{OTHER}_kernel"


@dataclass(frozen=True)
class TimeBreakdown:
    """What one device did for one process, in intervals of time; all times in ns.

    ``state_ns`` has the time of each of STATES in each interval; these add up to the interval.
    ``overlapped_ns`` has the time of communication, and of copies and memsets, that had something before it
    in the order.
    ``gil_ns`` has the parts of the idle time in host code by state of Python's lock; empty if not traced.
    """

    global_pid: int
    device_id: int
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    state_ns: Mapping[str, NDArray[Any]]
    overlapped_ns: Mapping[str, NDArray[Any]]
    gil_ns: Mapping[str, NDArray[Any]]

    @property
    def duration_ns(self) -> NDArray[Any]:
        """The duration of each interval."""
        return self.end_ns - self.start_ns  # type: ignore[no-any-return]

    @property
    def busy_ns(self) -> NDArray[Any]:
        """The time in each interval in which the device worked for the process."""
        busy: NDArray[Any] = sum((self.state_ns[state] for state in BUSY), np.zeros_like(self.start_ns))
        return busy

    @property
    def idle_ns(self) -> dict[str, NDArray[Any]]:
        """The idle time in each interval by cause, one of IDLE."""
        return {cause: self.state_ns[f"idle_{cause}"] for cause in IDLE}


def budgets_of(
    view: Capture,
    intervals: tuple[NDArray[Any], NDArray[Any]] | None = None,
    *,
    with_idle: bool = True,
) -> list[TimeBreakdown]:
    """Return the budget of each process and device of a view, in intervals inside the view's window.

    Without ``intervals`` (starts and ends, in order, not overlapping) they are the window itself.
    ``with_idle=False`` leaves out why the device was idle: these times are 0, and no gap is looked at.
    """
    operations = gpu_operations_of(view)
    whole = gpu_operations_of(view.whole)
    budgets = []
    for process, device, rows in operations.by_device():
        mine = operations.of(rows)
        start, end = intervals or windows(view, mine)
        if not with_idle:
            budgets.append(_budget((process, device), (start, end), _Busy(view, mine), iter(())))
            continue
        gaps = gaps_of(view)
        here = slice(*np.searchsorted(gaps.segments.gap, gaps.rows_of(process, device)))
        sharing = owners_of_gpus(view.whole)[process, device]
        of_others = (whole.rows_of[pair] for pair in sharing if pair != (process, device))
        others = whole.of(np.concatenate([rows[:0], *of_others]))
        idle = _with_others(_idle(gaps, here), others)
        made = _budget((process, device), (start, end), _Busy(view, mine), idle)
        budgets.append(replace(made, gil_ns=_gil(view, gaps.rows_of(process, device), (start, end))))
    return budgets


def shared_budget(budgets: Sequence[tuple[Capture, TimeBreakdown]]) -> TimeBreakdown:
    """Return the budget of a GPU that several processes share, each in its view: in all of their intervals.

    It is busy while any of them uses it, and idle by the first cause of those that their gaps have.
    """
    view = budgets[0][0]
    whole = gpu_operations_of(view.whole)
    window = union(*(np.concatenate([getattr(budget, end) for _, budget in budgets]) for end in SPANS))
    mine = whole.of(np.sort(np.concatenate([whole.rows_of[b.global_pid, b.device_id] for _, b in budgets])))
    segments = []
    for one, budget in budgets:
        gaps = gaps_of(one)
        here = slice(*np.searchsorted(gaps.segments.gap, gaps.rows_of(budget.global_pid, budget.device_id)))
        segments.append([part[here] for part in gaps.segments[1:]])
    begins, ends, number = map(np.concatenate, zip(*segments, strict=True))

    def idle() -> Iterator[tuple[str, IntervalSet]]:
        taken = union(mine.start_ns, mine.end_ns)
        for i, cause in enumerate(CAUSES):
            rows = np.flatnonzero(number == i)
            cover = union(begins[rows], ends[rows])
            yield cause, difference(cover, taken)
            taken = joined(taken, cover)

    owner = (MISSING, budgets[0][1].device_id)
    return _budget(owner, (window.start, window.end), _Busy(view, mine), idle())


def _idle(gaps: Gaps, here: slice) -> Iterator[IntervalSet]:
    """Yield the time of each of CAUSES in these segments of gaps."""
    for cause in CAUSES:
        rows = gaps.segments_of[cause]
        rows = rows[slice(*np.searchsorted(rows, (here.start, here.stop)))]
        yield union(gaps.segments.start_ns[rows], gaps.segments.end_ns[rows])


def _gil(
    view: Capture, rows: tuple[int, int], interval: tuple[NDArray[Any], NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return the time of host code in these gaps by state of Python's lock, in each interval."""
    found = {}
    for state, (gap, start, end) in (gil_parts(view) or {}).items():
        mine = (gap >= rows[0]) & (gap < rows[1])
        found[state] = union(start[mine], end[mine]).within(*interval)
    return found


class _Busy:
    """The busy states of a device, of operations that run alone and of those that run at the same time.

    Most run alone, and need no order of precedence.
    """

    def __init__(self, view: Capture, operations: GpuOperations) -> None:
        self._start = operations.start_ns
        self._end = np.maximum(operations.start_ns, operations.end_ns)  # of damaged times
        apart = self._start[1:] >= np.maximum.accumulate(self._end)[:-1]
        self._alone = (np.append(True, apart) & np.append(apart, True))[: len(operations)]
        self._state = np.full(len(operations), BUSY.index(MEMCPY), np.uint8)
        for kind in (MEMSET, GRAPH):
            self._state[operations.kind == KINDS.index(kind)] = BUSY.index(kind)
        kernels = np.flatnonzero(operations.kind == KINDS.index(KERNEL))
        if len(kernels):
            codes, classes = kernel_classes(view.whole)
            known = [name if name in CLASSES else OTHER for name in classes]
            names = [COMMUNICATION if name == COMMUNICATION else f"{name}_kernel" for name in known]
            of_class = np.array([BUSY.index(name) for name in names], np.uint8)
            self._state[kernels] = of_class.take(codes.take(operations.row.take(kernels)))

    def alone(self) -> Iterator[tuple[str, IntervalSet]]:
        """Yield the time of each state in which one operation ran."""
        for name, rows in self._rows(self._alone):
            yield name, IntervalSet(self._start.take(rows), self._end.take(rows))

    def at_once(self) -> Iterator[tuple[str, IntervalSet]]:
        """Yield the time of each state of the others, whatever runs beside, in the order of precedence."""
        for name, rows in self._rows(~self._alone):
            yield name, union(self._start.take(rows), self._end.take(rows))

    def _rows(self, marks: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
        chosen = np.flatnonzero(marks)
        state = self._state[chosen]
        for i in np.flatnonzero(np.bincount(state)).tolist():
            yield BUSY[i], chosen[state == i]


def _with_others(idle: Iterator[IntervalSet], others: GpuOperations) -> Iterator[tuple[str, IntervalSet]]:
    """Yield the idle time of each cause, the last for the time in which another process used the device.

    That time is taken out of the causes that may be due to it.
    """
    used = union(others.start_ns, others.end_ns)
    taken = []
    for cause, cover in zip(CAUSES, idle, strict=True):
        if cause in _WAITING:
            taken.append(intersection(cover, used))
            yield cause, difference(cover, used)
        else:
            yield cause, cover
    yield OTHER_PROCESS, joined(*taken)


def _budget(
    owner: tuple[int, int],
    interval: tuple[NDArray[Any], NDArray[Any]],
    busy: _Busy,
    idle: Iterator[tuple[str, IntervalSet]],
) -> TimeBreakdown:
    start, end = interval
    state_ns = {state: np.zeros(len(start), np.int64) for state in STATES}
    overlapped_ns = {state: np.zeros(len(start), np.int64) for state in (COMMUNICATION, COPY)}
    so_far, copies, before = NOTHING, NOTHING, np.zeros(len(start), np.int64)
    for state, cover in busy.at_once():
        so_far = joined(so_far, cover)
        taken = so_far.within(start, end)
        state_ns[state] = taken - before
        if state == COMMUNICATION:
            overlapped_ns[state] = cover.within(start, end) - state_ns[state]
        elif state in (MEMCPY, MEMSET):
            copies = joined(copies, cover)
            exposed = state_ns[MEMCPY] + state_ns[MEMSET]
            overlapped_ns[COPY] = copies.within(start, end) - exposed
        before = taken
    for state, cover in busy.alone():
        state_ns[state] += cover.within(start, end)
    for cause, cover in idle:
        state_ns[f"idle_{cause}"] = cover.within(start, end)
    return TimeBreakdown(*owner, start, end, state_ns, overlapped_ns, {})
