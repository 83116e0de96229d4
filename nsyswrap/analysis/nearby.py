"""Judge a window of a large capture by what lies near it.

What a screen says of a window follows from the operations and calls in it, and from those beside them.
``near_window`` reads the window with some time around it, and checks that nothing farther away can matter:

- no events were lost, the clocks agree, and memory was never nearly full; no FLOPs were recorded, and no
  ranks communicate
- each operation in the window has its launch call, and each call its operations, if they were recorded
- no launch in it lacks its work, unless the call failed, and no allocation ran out of memory
- each thread that launches in the window launched before, or called nothing before
- each device of each process has operations before and after the window, or no more of them in the whole
- all this holds for the NVTX ranges whose timing is judged, too, and no thread can cause launches of another
  one for them, but PyTorch's autograd thread

Where that does not hold within a few attempts, the whole is read. What is usual, such as the latency of a
launch, or how ranges of a name synchronize, is then what is usual near the window. Which launches are the
first of their kernel is looked up (``Capture.beyond``).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice import READS
from nsyswrap.analysis.advice.allocations import OUT_OF_MEMORY, near_limit
from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.advice.measurement import own_ranges
from nsyswrap.analysis.answer import withheld_because
from nsyswrap.analysis.arrays.groups import ascending, distinct
from nsyswrap.analysis.diagnostics.launch_checks import check_launches
from nsyswrap.analysis.gpu_operations import (
    GRAPH,
    KERNEL,
    KINDS,
    MEMCPY,
    MEMSET,
    GpuOperations,
    all_processes_known,
    communicating,
    gpu_operations_of,
)
from nsyswrap.analysis.judged_process import whole_processes
from nsyswrap.analysis.known_work import known_work
from nsyswrap.analysis.launches import Launches, graphs_of, launches_of
from nsyswrap.analysis.names import CLASSES, COPY, call_classes, is_autograd
from nsyswrap.analysis.timing_audit import audit
from nsyswrap.analysis.timing_audit.causation import ranging_threads
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import CaptureError
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import LEAST, MOST
from nsyswrap.capture.schema import PROCESS_MASK
from nsyswrap.capture.selection import Selection, process_ids

_UNFINISHED = ("launches_lost", "launches_captured")  # whose work, or the end of the graph, can be far away
_CUT = (*KINDS, "api", "synchronization")
_READS = {**{kind: READS[kind] for kind in KINDS}, "api": (*READS["api"], "return_value")}
_LEAST_NS = 50_000_000  # around a window
_ATTEMPTS, _WIDER = 3, 8
_MOST = 0.25  # of all kernels: with more of them near, the whole is read as fast


def near_window(capture: Capture) -> Capture:
    """Return a capture with what lies near its window; the same capture where that does not suffice."""
    whole = capture.whole
    most = _MOST * _kernels(whole) if capture.view.selection.windowed else 0
    if not most:
        return capture
    start, end = capture.window.start_ns, capture.window.end_ns
    margin = max((end - start) // 4, _LEAST_NS)
    for _ in range(_ATTEMPTS):
        times = low, high = start - margin, end + margin
        around = whole.viewed(selection=Selection(low, high, clip=False))
        if around.count(KERNEL) > most:
            break
        kinds = filter(whole.holds, _CUT)
        near = capture.nearby(
            {_table(whole, kind): around.columns(kind, "row")["row"] - 1 for kind in kinds}, times
        )
        with suppress(CaptureError):  # which the screen says
            for kind, fields in _READS.items():
                if whole.holds(kind):  # each table of the export is read once
                    near.whole.columns(kind, *fields)
            if _has_all_contexts(near.whole):
                judged = _judged_time(near)
                if judged == (LEAST, MOST) or _is_unusual(near):
                    break
                if _suffices(near, judged, times):
                    return near
        margin *= _WIDER
    return capture


def _kernels(whole: Capture) -> int:
    """Return about how many kernels a large capture has; 0 if it is not large, or has no calls."""
    return (
        whole.original.rows_if_large(_table(whole, KERNEL)) if whole.has("api") and whole.has(KERNEL) else 0
    )


def _table(whole: Capture, kind: str) -> str:
    """Return the table of events of which an export has one table."""
    [table] = schema.events(kind).tables(whole.original.tables)
    return table


def _is_unusual(near: Capture) -> bool:
    """Return True if what is doubtful near a window, or rare, has to be judged in the whole."""
    whole = near.whole
    operations = gpu_operations_of(whole)
    return bool(
        any(diagnostic.loss for diagnostic in whole.diagnostics)
        or not all_processes_known(whole)
        or withheld_because(whole) is not None
        # The range around an allocation, however long ago, is named.
        or any(any(near_limit(AdviceContext(process))) for process in whole_processes(whole))
        # Whether ranks wait for each other is judged over all time.
        or (len(operations.processes) > 1 and communicating(whole, operations).any())
        or known_work(whole).recorded
    )


def _suffices(near: Capture, judged_time: tuple[int, int], around: tuple[int, int]) -> bool:
    """Return True if nothing outside the time ``around`` the window of a view can matter for what is said."""
    whole, (start, end), (low, high) = near.whole, judged_time, around
    if start < low or end > high:
        return False
    if any(check.kind in _UNFINISHED for check in check_launches(near)):
        return False
    operations, launches = gpu_operations_of(whole), launches_of(whole)
    judged = [np.flatnonzero((operations.start_ns <= end) & (operations.end_ns >= start))]
    for process, device, rows in operations.by_device():
        later = rows[operations.start_ns[rows] >= end][:1]  # it ends the last gap
        sides = (False, (operations.end_ns[rows] <= start).any()), (True, len(later))
        if any(not known and _used_beyond(whole, (process, device), later=side) for side, known in sides):
            return False
        judged.append(later)
    api = whole.columns("api", "start_ns", "end_ns", "return_value")
    work = operations.of(np.concatenate(judged))
    calls = work.call.compress(work.call >= 0)
    if not len(gpu_operations_of(near)) or (api["start_ns"][calls] < low).any():
        return False
    called = (api["start_ns"] <= end) & (api["end_ns"] >= start)
    touching = launches.of(np.flatnonzero(np.isin(launches.call, calls) | called[launches.call]))
    return (
        OUT_OF_MEMORY not in api["return_value"][called]  # what follows tells whether the program goes on
        and _called_here(whole, work, around)
        and _replays_are_complete(whole, touching)
        and not _work_elsewhere(whole, np.flatnonzero(called))
        and _have_previous(whole, touching)
    )


def _has_all_contexts(near: Capture) -> bool:
    """Return True if there are calls here, and operations of each CUDA context that was recorded."""
    if not (near.count("api") and near.count(KERNEL)):
        return False
    owners = [(process, device) for process, device, _ in gpu_operations_of(near).by_device()]
    pids = process_ids(np.array([process for process, _ in owners], np.int64)).tolist()
    here = {(pid, device) for pid, (_, device) in zip(pids, owners, strict=True)}
    return bool(near.contexts) and near.contexts <= here


def _used_beyond(near: Capture, owner: tuple[int, int], *, later: bool) -> bool:
    """Return True if a process used a device before what is here, or after it."""
    for kind in filter(near.recorded.has, KINDS):
        for block in near.beyond(kind, "global_pid", "device_id", later=later):
            if ((block["global_pid"] == owner[0]) & (block["device_id"] == owner[1])).any():
                return True
    return False


def _called_here(near: Capture, work: GpuOperations, around: tuple[int, int]) -> bool:
    """Return True if the launch call of each operation is here, or was not recorded.

    Calls of a process are numbered about as they begin: in 280 captures up to 14 ms out of order. So a call
    whose number is between those of others that began inside of what is here would be here, too.
    """
    lacking = work.of(np.flatnonzero((work.call < 0) & ~work.migration))
    calls = near.columns("api", "global_tid", "correlation_id", "start_ns")
    ids, process = calls["correlation_id"], calls["global_tid"] & PROCESS_MASK
    low, high = around[0] + _LEAST_NS // 2, around[1] - _LEAST_NS // 2
    counted = (calls["start_ns"] >= low) & (calls["start_ns"] <= high) & (ids != MISSING)
    for owner in ascending(lacking.global_pid).tolist():
        here = ids[counted & (process == owner)]
        mine = lacking.of(np.flatnonzero(lacking.global_pid == owner))
        for number, kind in enumerate(KINDS):
            rows = mine.row[mine.kind == number]
            if len(rows):
                wanted = near.columns(kind, "correlation_id")["correlation_id"][rows]
                if not len(here) or wanted.min() < here.min() or wanted.max() > here.max():
                    return False
    return True


def _replays_are_complete(near: Capture, launches: Launches) -> bool:
    """Return True if these launches of graphs have as many operations as another one of the same graph.

    One at an end of what is here can lack some of them: then others have more, or there is no other one.
    """
    if (launches.operations[~launches.of_graph] > 1).any():
        return False
    every, operations = launches_of(near), gpu_operations_of(near)
    graphs, replayed = (graphs_of(near, operations.of(some.operation)) for some in (every, launches))
    parted = operations.kind[launches.operation] != KINDS.index(GRAPH)  # a whole graph is one operation
    for graph in ascending(replayed[parted & (replayed != MISSING)]).tolist():
        counts = every.operations[graphs == graph]
        complete = np.count_nonzero(counts == counts.max()) > 1
        if not complete or (launches.operations[replayed == graph] < counts.max()).any():
            return False
    return True


def _work_elsewhere(near: Capture, calls: NDArray[Any]) -> bool:
    """Return True if one of these calls that can copy, and has no operation here, has one elsewhere."""
    marks = call_classes(near) == CLASSES.index(COPY)
    started = gpu_operations_of(near).call
    marks[started[started >= 0]] = False
    calls = calls[marks[calls]]
    if not len(calls):
        return False
    thread, ids = (values[calls] for values in near.columns("api", "global_tid", "correlation_id").values())
    wanted = {*zip((thread & PROCESS_MASK).tolist(), ids.tolist(), strict=True)}
    for kind in filter(near.recorded.has, (MEMCPY, MEMSET)):
        process, number = near.recorded.columns(kind, "global_pid", "correlation_id").values()
        rows = np.flatnonzero(np.isin(number, ids))
        if not wanted.isdisjoint(zip(process[rows].tolist(), number[rows].tolist(), strict=True)):
            return True
    return False


def _have_previous(near: Capture, launches: Launches) -> bool:
    """Return True if the previous launch of the thread is here for each launch that is not its first."""
    here, firsts = _first_of_threads(near, launches_of(near)), _first_of_threads(near, launches)
    lacking = [thread for thread, start_ns in firsts.items() if here[thread] == start_ns]
    blocks = near.beyond("api", "global_tid") if lacking else ()
    return not any(np.isin(block["global_tid"], lacking).any() for block in blocks)


def _first_of_threads(near: Capture, launches: Launches) -> dict[int, int]:
    """Return the start in ns of the first of these launches of each thread, by its global id."""
    threads, codes = distinct(near.columns("api", "global_tid")["global_tid"][launches.call])
    first = np.full(len(threads), np.iinfo(np.int64).max)
    np.minimum.at(first, codes, launches.start_ns)
    return dict(zip(threads.tolist(), first.tolist(), strict=True))


def _judged_time(near: Capture) -> tuple[int, int]:
    """Return the time of the window of a view and of the ranges whose timing is judged for it.

    What threads have to do with each other is judged by all that they do: then it is all time.
    """
    start, end = near.window.start_ns, near.window.end_ns
    if not near.has("nvtx"):
        return start, end
    ranges = audit(near)
    mine = own_ranges(near, ranges)
    if mine.any() and _threads_meet(near.whole):
        return LEAST, MOST
    return int(ranges.start_ns[mine].min(initial=start)), int(ranges.end_ns[mine].max(initial=end))


def _threads_meet(whole: Capture) -> bool:
    """Return True if a thread with ranges of its own could cause launches of another one.

    Whether it does is judged by all that both do, but PyTorch's autograd thread is known by its name.
    """
    threads, call = whole.columns("api", "global_tid")["global_tid"], gpu_operations_of(whole).call
    ranging, launching = ranging_threads(whole), ascending(threads[call[call >= 0]])
    several = len(ascending(ranging & PROCESS_MASK)) < len(ranging)
    others = launching[
        np.isin(launching & PROCESS_MASK, ranging & PROCESS_MASK) & ~np.isin(launching, ranging)
    ]
    return several or not all(is_autograd(whole, thread) for thread in others.tolist())
