"""Judge a window of a large capture by what lies near it, once the whole was read.

What a screen says of a window follows from the operations and calls in it, from those beside them, and from
facts of the whole. ``keep_facts`` stores these, unless something in the whole is doubtful or unusual.
``near_window`` reads the window with some time around it, and checks that nothing farther away can matter:

- each operation in the window has its launch call, and each call its operations, if the whole has them
- no launch in it lacks its work, unless the call failed, and no allocation ran out of memory
- each thread that launches in the window launched before, or never before in the whole, without a wait
- each device of each process has operations before and after the window, or no more of them in the whole
- all this holds for the NVTX ranges whose timing is judged, too, and threads do not meet in them

Where that does not hold within a few attempts, the whole is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.allocations import OUT_OF_MEMORY, near_limit
from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.advice.measurement import own_ranges
from nsyswrap.analysis.advice.memory import best_rates
from nsyswrap.analysis.answer import withheld_because
from nsyswrap.analysis.arrays.groups import ascending, distinct
from nsyswrap.analysis.diagnostics.launch_checks import check_launches
from nsyswrap.analysis.gpu_gaps import longest_latency
from nsyswrap.analysis.gpu_operations import (
    KERNEL,
    KINDS,
    GpuOperations,
    all_processes_known,
    communicating,
    gpu_operations_of,
)
from nsyswrap.analysis.judged_process import whole_processes
from nsyswrap.analysis.known_work import known_work
from nsyswrap.analysis.launch_bound import back_to_back
from nsyswrap.analysis.launches import Launches, graph_field, graph_ids, launches_of
from nsyswrap.analysis.names import CLASSES, COPY, call_classes
from nsyswrap.analysis.no_gpu_work import CaptureEvidence
from nsyswrap.analysis.program_language import framework_of, language_of
from nsyswrap.analysis.timing_audit import audit
from nsyswrap.analysis.timing_audit.causation import causing_threads
from nsyswrap.analysis.timing_audit.purpose import seems_measured
from nsyswrap.base.errors import CaptureError
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import LEAST, MOST
from nsyswrap.capture.nearby import DeviceUse, WholeFacts
from nsyswrap.capture.schema import PROCESS_MASK
from nsyswrap.capture.selection import Selection

_UNFINISHED = ("launches_lost", "launches_captured")  # whose work, or the end of the graph, can be far away
_CUT = (*KINDS, "api", "synchronization")
_LEAST_NS = 50_000_000  # around a window
_ATTEMPTS, _WIDER = 3, 8
_MOST = 0.25  # of the time of all operations: near all of it, the whole is read as fast


def keep_facts(capture: Capture) -> None:
    """Store facts of the whole of a large capture for its windows, after most of them were computed."""
    stored = capture.stored_facts
    if not stored or capture.facts:
        return
    known = stored.read()
    if known is None or (known and not WholeFacts.unpacked(known)):
        facts = None
        with suppress(CaptureError):  # which the screen has said
            facts = _facts(capture.whole)
        stored.write(facts.packed() if facts else b"")


def _facts(whole: Capture) -> WholeFacts | None:
    """Return the facts of a whole capture; None if its windows have to be judged in the whole."""
    if not (whole.has(KERNEL) and whole.has("api") and len(_tables(whole, "api")) == 1):
        return None
    operations, launches = gpu_operations_of(whole), launches_of(whole)
    doubtful = (
        any(diagnostic.loss for diagnostic in whole.diagnostics)
        or not all_processes_known(whole)
        or withheld_because(whole) is not None
        # The range around an allocation, however long ago, is named.
        or any(any(near_limit(AdviceContext(process))) for process in whole_processes(whole))
    )
    # Whether ranks wait for each other is judged over all time.
    talks = len(operations.processes) > 1 and communicating(whole, operations).any()
    graphs = _graphs(whole, launches)
    unequal = len(dict(graphs)) < len(graphs) or (launches.operations[~launches.of_graph] > 1).any()
    if doubtful or talks or unequal or known_work(whole).recorded:
        return None
    return WholeFacts(
        launches.call[launches.first].tolist(),
        _unstarted(whole).tolist(),
        {kind: rows.tolist() for kind, rows in _without_call(operations).items()},
        _measured(whole).tolist(),
        longest_latency(whole),
        best_rates(whole),
        _threads_meet(whole),
        sorted(CaptureEvidence(whole, {}).recorded_pids),
        whole.all_cuda_events,
        framework_of(whole),
        language_of(whole),
        list(graphs),
        _first_launches(whole),
        [
            DeviceUse(process, device, int(operations.start_ns[rows[0]]), int(operations.end_ns[rows].max()))
            for process, device, rows in operations.by_device()
        ],
    )


def _first_launches(whole: Capture) -> list[tuple[int, int]]:
    """Return threads with their first launch, but not those that waited before it."""
    launches = launches_of(whole)
    unhindered = launches.of(np.flatnonzero(back_to_back(whole, or_first=True)))
    first, others = (_first_of_threads(whole, some) for some in (launches, unhindered))
    return list(first.items() & others.items())


def _first_of_threads(whole: Capture, launches: Launches) -> dict[int, int]:
    """Return the start in ns of the first of these launches of each thread, by its global id."""
    threads, codes = distinct(whole.columns("api", "global_tid")["global_tid"][launches.call])
    first = np.full(len(threads), np.iinfo(np.int64).max)
    np.minimum.at(first, codes, launches.start_ns)
    return dict(zip(threads.tolist(), first.tolist(), strict=True))


def _graphs(whole: Capture, launches: Launches) -> set[tuple[int, int]]:
    """Return the ids of the graphs of these launches, each with how many operations a launch has."""
    launches = launches.of(np.flatnonzero(launches.of_graph))
    operations, graphs = gpu_operations_of(whole).of(launches.operation), set[tuple[int, int]]()
    for number, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == number)
        if len(mine):
            mine, field = mine[np.argsort(operations.row[mine])], graph_field(kind)
            ids = graph_ids(kind, whole.at(kind, operations.row[mine], field)[field])
            graphs |= set(zip(ids.tolist(), launches.operations[mine].tolist(), strict=True))
    return graphs


def _unstarted(whole: Capture) -> NDArray[Any]:
    """Return the positions of the calls that can copy, and started nothing."""
    marks = call_classes(whole) == CLASSES.index(COPY)
    operations = gpu_operations_of(whole)
    marks[operations.call.compress(operations.call >= 0)] = False
    return np.flatnonzero(marks)


def _without_call(operations: GpuOperations) -> dict[str, NDArray[Any]]:
    """Return the rows of the operations that have no launch call by kind, but for migrations."""
    lacking = operations.of(np.flatnonzero((operations.call < 0) & ~operations.migration))
    return {kind: lacking.row[lacking.kind == number] for number, kind in enumerate(KINDS)}


def _measured(whole: Capture) -> NDArray[Any]:
    """Return the positions of the ranges that seem to measure GPU work."""
    if not whole.has("nvtx"):
        return np.empty(0, np.int64)
    rows: NDArray[Any] = audit(whole).row[seems_measured(whole)]
    return rows


def _tables(whole: Capture, kind: str) -> list[str]:
    return schema.events(kind).tables(whole.original.tables)


def near_window(capture: Capture) -> Capture:
    """Return a capture with what lies near its window; the same capture where that does not suffice."""
    stored = capture.stored_facts if capture.view.selection.windowed else None
    facts = WholeFacts.unpacked(stored.read() or b"") if stored else None
    if not facts:
        return capture
    start, end = capture.window.start_ns, capture.window.end_ns
    used_ns = max(use.last_ns for use in facts.devices) - min(use.first_ns for use in facts.devices)
    margin = max((end - start) // 4, _LEAST_NS)
    for _ in range(_ATTEMPTS):
        low, high = start - margin, end + margin
        if high - low > _MOST * used_ns:
            break
        around = capture.whole.viewed(selection=Selection(low, high, clip=False))
        rows = {
            table: around.columns(kind, "row")["row"] - 1 for kind in _CUT for table in _tables(around, kind)
        }
        near = capture.nearby(rows, _of_rows(facts, around, rows))
        with suppress(CaptureError):  # which the screen says
            judged = _judged_time(near, facts)
            if judged == (LEAST, MOST):
                break
            if _suffices(near, judged, (low, high)):
                return near
        margin *= _WIDER
    return capture


def _of_rows(facts: WholeFacts, around: Capture, rows: Mapping[str, NDArray[Any]]) -> WholeFacts:
    """Return facts with the positions among the rows that are near."""

    def here(kind: str, positions: list[int]) -> list[int]:
        near = (np.flatnonzero(np.isin(rows[table], positions)).tolist() for table in _tables(around, kind))
        return next(near, [])

    return facts._replace(
        first_calls=here("api", facts.first_calls),
        unstarted=here("api", facts.unstarted),
        without_call={kind: here(kind, positions) for kind, positions in facts.without_call.items()},
    )


def _suffices(near: Capture, judged_time: tuple[int, int], around: tuple[int, int]) -> bool:
    """Return True if nothing outside the time ``around`` the window of a view can matter for what is said."""
    whole, facts, (start, end), (low, high) = near.whole, near.facts, judged_time, around
    if not (facts and whole.count(KERNEL) and whole.count("api")) or start < low or end > high:
        return False
    if any(check.kind in _UNFINISHED for check in check_launches(near)):
        return False
    operations, launches = gpu_operations_of(whole), launches_of(whole)
    used = {(process, device): rows for process, device, rows in operations.by_device()}
    inside = (operations.start_ns <= end) & (operations.end_ns >= start)
    judged = [np.flatnonzero(inside)]
    for use in facts.devices:
        rows = used.get((use.global_pid, use.device_id), np.empty(0, np.int64))
        later = rows[operations.start_ns[rows] >= end][:1]  # it ends the last gap
        is_before = use.first_ns >= low or (operations.end_ns[rows] <= start).any()
        if not (len(rows) and is_before and (use.last_ns <= high or len(later))):
            return False
        judged.append(later)
    api = whole.columns("api", "start_ns", "end_ns", "return_value")
    work = operations.of(np.concatenate(judged))
    calls = work.call.compress(work.call >= 0)
    if not len(gpu_operations_of(near)) or (api["start_ns"][calls] < low).any():
        return False
    called = (api["start_ns"] <= end) & (api["end_ns"] >= start)
    touching = launches.of(np.flatnonzero(np.isin(launches.call, calls) | called[launches.call]))
    waiting = np.setdiff1d(np.flatnonzero(called), facts.unstarted)
    return (
        OUT_OF_MEMORY not in api["return_value"][called]  # what follows tells whether the program goes on
        and all(
            set(rows.tolist()) <= set(facts.without_call[kind]) for kind, rows in _without_call(work).items()
        )
        and _graphs(whole, touching) <= set(facts.graphs)
        and not np.isin(waiting, _unstarted(whole)).any()
        and _have_previous(whole, touching, dict(facts.first_launches))
    )


def _have_previous(near: Capture, launches: Launches, first: dict[int, int]) -> bool:
    """Return True if the previous launch of the thread is near for each launch that is not its first."""
    here, firsts = _first_of_threads(near, launches_of(near)), _first_of_threads(near, launches)
    return all(
        here[thread] < start_ns or first.get(thread) == start_ns for thread, start_ns in firsts.items()
    )


def _judged_time(near: Capture, facts: WholeFacts) -> tuple[int, int]:
    """Return the time of the window of a view and of the ranges whose timing is judged for it.

    What threads have to do with each other is judged by all that they do: then it is all time.
    """
    start, end = near.window.start_ns, near.window.end_ns
    if not (near.has("nvtx") and near.whole.count("api")):
        return start, end
    ranges = audit(near)
    mine = own_ranges(near, ranges)
    if mine.any() and (facts.threads_meet or _threads_meet(near.whole)):
        return LEAST, MOST
    return int(ranges.start_ns[mine].min(initial=start)), int(ranges.end_ns[mine].max(initial=end))


def _threads_meet(whole: Capture) -> bool:
    """Return True if several threads of a process start operations, or one causes calls of another."""
    threads, call = whole.columns("api", "global_tid")["global_tid"], gpu_operations_of(whole).call
    starting = ascending(threads[call[call >= 0]])
    several = len(ascending(starting & PROCESS_MASK)) < len(starting)
    return several or (whole.has("nvtx") and bool((causing_threads(whole) != threads).any()))
