"""Checks of launches and times: launches without work, work without a launch, impossible times.

nsys converts GPU times to the CPU's clock. An error in that conversion is also in launch latency and queue
time, and can move a kernel to the other side of the end of an NVTX range.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, distinct, group_keys, text_codes
from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.diagnostics.check import info, marked, ok, unclipped, unclipped_work, unknown, warning
from nsyswrap.analysis.finding import CheckResult, Numbers
from nsyswrap.analysis.gpu_operations import KINDS, GpuOperations, all_processes_known, gpu_operations_of
from nsyswrap.analysis.names import CLASSES, LAUNCH, call_classes, strip_version
from nsyswrap.analysis.no_gpu_work import was_traced
from nsyswrap.base.check import Level
from nsyswrap.base.constants import MISSING
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import IntervalSet, union
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.selection import global_process_ids
from nsyswrap.capture.stream import one_of

Calls = dict[str, NDArray[Any]]

LAUNCHES, ORIGINS, CORRELATION_IDS = "launches without work", "work without launch", "correlation ids"
TIMES, CLOCKS = "times", "CPU and GPU clocks"
_BEGIN_CAPTURE, _END_CAPTURE = r"cu(da)?StreamBeginCapture", r"cu(da)?StreamEndCapture"
_FIELDS = ("start_ns", "global_tid", "correlation_id", "name")

Covers = dict[int, IntervalSet]  # by global id of a thread or process

OVERHEAD, CUDA_OVERHEAD = "profiler overhead", "CUDA overhead"
MUCH_PERCENT = 10.0  # of the time in API calls or of the GPU idle time: a larger share is a warning
_OVERHEAD_FIELDS = (*SPANS, "global_tid", "name", "overhead_type")


def check_launches(capture: Capture) -> Iterator[CheckResult]:
    """Yield launch calls without GPU work, grouped by cause: failed, captured into a graph, not recorded."""
    if not capture.has("api"):
        yield unknown(LAUNCHES, "no_api", was_traced=was_traced(capture, "cuda"))
        return
    calls = unclipped(capture, "api", *_FIELDS)
    launching = call_classes(capture) == CLASSES.index(LAUNCH)
    # By start, the first of each process and correlation id.
    rows = np.flatnonzero(launching & ~_started(capture))
    rows = rows[np.argsort(calls["start_ns"][rows], kind="stable")]
    codes, _ = group_keys(global_process_ids(calls["global_tid"][rows]), calls["correlation_id"][rows])
    lacking = rows[np.sort(np.unique(codes, return_index=True)[1])]
    failed = captured = np.zeros(0, dtype=bool)
    if len(lacking):  # else results need not be read
        failed = ~one_of(unclipped(capture, "api", "return_value")["return_value"][lacking], (0, MISSING))
        captured = ~failed & _capturing(capture, calls, lacking)
    lost = lacking[~failed & ~captured]
    if count := marked(failed):
        yield warning(LAUNCHES, "launches_failed", count)
    if len(lost):
        yield warning(LAUNCHES, "launches_lost", len(lost), **_not_recorded(capture, calls, lost))
    if count := marked(captured):
        yield info(LAUNCHES, "launches_captured", count)
    if not failed.any() and not len(lost):
        recorded = "other_launches_recorded" if captured.any() else "launches_recorded"
        yield ok(LAUNCHES, recorded if launching.any() else "no_launch_calls")


def _started(capture: Capture) -> NDArray[Any]:
    """Mark the selected calls that started an operation, selected or not."""
    whole = capture.whole
    started: NDArray[Any] = np.zeros(whole.count("api"), dtype=bool)
    for kind in KINDS:
        if whole.has(kind):
            started[launch_pairs_of(whole, kind).api] = True
    return started[capture.columns("api", "row")["row"] - 1] if capture.view.selection.narrows else started


def _with_name(capture: Capture, calls: Calls, pattern: str) -> NDArray[Any]:
    """Mark the calls whose name matches the pattern at its beginning."""
    ids, positions = distinct(calls["name"])
    matches: NDArray[Any] = np.array(
        [bool(re.match(pattern, capture.text(i) or "")) for i in ids.tolist()], bool
    )
    marks: NDArray[Any] = matches[positions]
    return marks


def _capturing(capture: Capture, calls: Calls, rows: NDArray[Any]) -> NDArray[Any]:
    """Mark the calls made while their process captured a CUDA graph."""
    every = capture.whole.columns("api", *_FIELDS, "return_value")
    begins, ends = (_with_name(capture, every, pattern) for pattern in (_BEGIN_CAPTURE, _END_CAPTURE))
    begins &= one_of(every["return_value"], (0, MISSING))
    steps = np.flatnonzero(begins | ends)
    steps = steps[np.argsort(every["start_ns"][steps], kind="stable")]
    capturing = np.zeros(len(rows), dtype=bool)
    processes = global_process_ids(calls["global_tid"][rows])
    for process in ascending(processes).tolist():
        own = steps[global_process_ids(every["global_tid"][steps]) == process]
        depth = np.append(0, np.cumsum(np.where(begins[own], 1, -1)))
        depth -= np.minimum.accumulate(depth)  # an end without a recorded begin does not count
        here = processes == process
        capturing[here] = depth[np.searchsorted(every["start_ns"][own], calls["start_ns"][rows[here]])] > 0
    return capturing


def _not_recorded(capture: Capture, calls: Calls, rows: NDArray[Any]) -> Numbers:
    """Count the calls by function, and those after the last call of their process with recorded work."""
    names = Counter(strip_version(capture.text(i)) for i in calls["name"][rows].tolist())
    every, began = gpu_operations_of(capture.whole), capture.whole.columns("api", "start_ns")["start_ns"]
    queued = np.where(every.call >= 0, began[every.call], every.start_ns)
    processes, after = global_process_ids(calls["global_tid"][rows]), np.zeros(len(rows), dtype=bool)
    for process in every.processes:
        mine = (processes == process) | (process == MISSING)
        after |= mine & (calls["start_ns"][rows] >= queued[every.global_pid == process].max())
    return {"functions": names.most_common(3), "late": marked(after)}


def check_origins(capture: Capture) -> Iterator[CheckResult]:
    """Yield operations without a launch call by kind, then correlation ids that are ambiguous.

    Migrations of unified memory have no launch call and are left out.
    """
    operations = unclipped_work(capture)
    operations = operations.of(~operations.migration)
    if not len(operations) or not capture.whole.has("api"):
        yield unknown(ORIGINS, "no_api_to_check" if len(operations) else "no_work_to_check")
        return
    lost = operations.call < 0
    # Those that began before the first one of their process with a recorded call.
    first = np.full(len(operations), MISSING)  # no operation is earlier
    for process in operations.processes:
        mine = operations.global_pid == process
        known = operations.start_ns[mine & (operations.call >= 0)]
        if len(known):
            first[mine] = known.min()
    midway = lost & (operations.start_ns < first)
    for code, kind in enumerate(KINDS):
        mine = lost & (operations.kind == code)
        if count := marked(mine):
            yield warning(ORIGINS, "no_launch_call", count, events=kind, early=marked(mine & midway))
    if not lost.any():
        yield ok(ORIGINS, "calls_recorded")
    doubts = [*_ambiguous(capture, operations), *_without_process(capture, operations)]
    yield from doubts
    if not doubts:
        yield ok(CORRELATION_IDS, "ids_unique")


def _ambiguous(capture: Capture, operations: GpuOperations) -> Iterator[CheckResult]:
    """Yield operations that more than one call may have launched."""
    for code, kind in enumerate(KINDS):
        rows = operations.row[operations.kind == code]
        if not len(rows):
            continue
        if count := marked(np.isin(_of_several_calls(capture.whole, kind), rows)):
            yield warning(CORRELATION_IDS, "ids_shared", count, events=kind)


def _of_several_calls(whole: Capture, kind: str) -> NDArray[Any]:
    """Return the operations whose correlation id belongs to calls that do not enclose each other.

    A runtime call encloses the driver call below it: those two count as one call.
    """
    pairs = launch_pairs_of(whole, kind)
    same = pairs.operation[1:] == pairs.operation[:-1]
    shared = np.flatnonzero(np.append(same, [False]) | np.append([False], same))
    operation, call = pairs.operation[shared], pairs.api[shared]
    api = whole.columns("api", *SPANS, "global_tid")
    start, end, thread = (api[field][call] for field in (*SPANS, "global_tid"))
    order = np.lexsort((-end, start, operation))
    operation, end, thread = operation[order], end[order], thread[order]
    _, first, number = np.unique(operation, return_index=True, return_inverse=True)
    outer = first[number]
    return ascending(operation[(end > end[outer]) | (thread != thread[outer])])


def _without_process(capture: Capture, operations: GpuOperations) -> Iterator[CheckResult]:
    if all_processes_known(capture):  # else the columns would have to be read again
        return
    parts = [(kind, operations.row[operations.kind == code]) for code, kind in enumerate(KINDS)]
    pids = [
        capture.whole.columns(kind, "global_pid")["global_pid"][rows] for kind, rows in parts if len(rows)
    ]
    if not (count := marked(np.concatenate(pids) == MISSING)):
        return
    processes = len(ascending(global_process_ids(capture.whole.columns("api", "global_tid")["global_tid"])))
    if processes > 1:
        yield warning(CORRELATION_IDS, "by_id_of_several", count, processes=processes)
    else:
        yield info(CORRELATION_IDS, "by_id_of_one", count)


def check_times(capture: Capture) -> Iterator[CheckResult]:
    """Yield impossible times of operations, by kind, and of API calls."""
    operations = unclipped_work(capture)
    yield from _before_launch(capture, operations)
    odd: list[CheckResult] = []
    for code, kind in enumerate(KINDS):
        mine = operations.kind == code
        odd += _impossible(kind, operations.start_ns[mine], operations.end_ns[mine])
    if capture.has("api"):
        odd += _impossible("api", *unclipped(capture, "api", *SPANS).values())
    yield from odd
    if not odd and (len(operations) or capture.has("api")):
        yield ok(TIMES, "times_sound")


def _before_launch(capture: Capture, operations: GpuOperations) -> Iterator[CheckResult]:
    """Compare the start of each operation with that of the outermost call that launched it."""
    launched = operations.of(operations.call >= 0)
    if not len(launched):
        yield unknown(CLOCKS, "nothing_launched")
        return
    called = capture.whole.columns("api", "start_ns")["start_ns"][launched.call]
    ahead = called - launched.start_ns
    for code, kind in enumerate(KINDS):
        early = ahead[(launched.kind == code) & (ahead > 0)]
        if len(early):
            yield warning(CLOCKS, "before_launch", len(early), int(early.max()), events=kind)
    if not (ahead > 0).any():
        yield ok(CLOCKS, "after_launch", delay_ns=-int(ahead.max()))


def _impossible(kind: str, start: NDArray[Any], end: NDArray[Any]) -> Iterator[CheckResult]:
    backwards, early = np.flatnonzero(end < start), marked(start <= 0)
    if len(backwards):
        most = int((start[backwards] - end[backwards]).max())
        yield warning(TIMES, "backwards", len(backwards), most, events=kind)
    if early:
        yield warning(TIMES, "before_zero", early, events=kind)


class Overhead(NamedTuple):
    """Overhead events, times in ns. ``of_cuda`` marks what CUDA does without a profiler too.

    ``label`` numbers the texts that ``_events`` returns.
    """

    start: NDArray[Any]
    end: NDArray[Any]
    thread: NDArray[Any]
    label: NDArray[Any]
    of_cuda: NDArray[Any]

    def of(self, rows: NDArray[Any]) -> Overhead:
        """Return the events at these positions, or with True at theirs."""
        return Overhead._make(column[rows] for column in self)

    def covers(self, owner: NDArray[Any]) -> Covers:
        """Return the time that the events cover, for each distinct ``owner``."""
        rows = {one: owner == one for one in ascending(owner).tolist()}
        return {one: union(self.start[mine], self.end[mine]) for one, mine in rows.items()}


def check_overhead(capture: Capture) -> Iterator[CheckResult]:
    """Yield the profiler's own work in total, then each label of overhead by time, the longest first."""
    events, labels = _events(capture)
    if not len(events.start):
        yield unknown(OVERHEAD, "no_overhead")
        return
    codes, keys = group_keys(events.label, events.of_cuda.astype(np.int64))
    by_label = [events.of(codes == code) for code in range(len(keys[0]))]
    calls, idle = _api_calls(capture), _idle(capture)
    parts = [events.of(~events.of_cuda), *by_label]
    totals = [_length(part.covers(part.thread)) for part in parts]
    in_api = _inside([part.covers(part.thread) for part in parts], calls)
    in_idle = _inside([part.covers(global_process_ids(part.thread)) for part in parts], idle)
    yield _total(len(parts[0].start), totals[0], (in_api[0], _length(calls)), (in_idle[0], _length(idle)))
    checks = []
    for group, total, api_ns, idle_ns in zip(by_label, totals[1:], in_api[1:], in_idle[1:], strict=True):
        label, of_cuda = labels[int(group.label[0])], bool(group.of_cuda[0])
        numbers = {"label": label, "of_cuda": of_cuda, "in_api_ns": api_ns, "in_idle_ns": idle_ns}
        subject = CUDA_OVERHEAD if of_cuda else OVERHEAD
        checks.append(info(subject, "overhead_label", len(group.start), total, **numbers))
    yield from sorted(checks, key=lambda check: -(check.time_ns or 0))


def _total(count: int, total: int, in_api: tuple[int, int], in_idle: tuple[int, int]) -> CheckResult:
    """Compare the profiler's work with API and idle time; each pair is a part and its whole, in ns."""
    is_much = any(whole and 100 * part >= MUCH_PERCENT * whole for part, whole in (in_api, in_idle))
    numbers = dict(zip(("in_api_ns", "api_ns", "in_idle_ns", "idle_ns"), (*in_api, *in_idle), strict=True))
    level: Level = "note" if is_much else "info"
    return CheckResult(level, OVERHEAD, "overhead", {**numbers, "is_much": is_much}, count, total)


def _events(capture: Capture) -> tuple[Overhead, list[str | None]]:
    """Return the events of both overhead tables, each once, and the text of each label."""
    kinds = [kind for kind in ("overhead", "cuda_overhead") if capture.has(kind)]
    parts = [capture.columns(kind, *_OVERHEAD_FIELDS) for kind in kinds]
    start, end, thread, name, overhead_type = (
        np.concatenate([np.empty(0, np.int64), *(part[field] for part in parts)])
        for field in _OVERHEAD_FIELDS
    )
    label, labels = text_codes(name, lambda i: (capture.text(i) or "unnamed").partition("(")[0])
    events = Overhead(start, end, thread, label, one_of(overhead_type, schema.CUDA_OVERHEAD_TYPES))
    _, once = np.unique(np.stack(events[:4]), axis=1, return_index=True)
    return events.of(np.sort(once)), labels


def _api_calls(capture: Capture) -> Covers:
    """Return the time that each thread spent in API calls."""
    if not capture.has("api"):
        return {}
    calls = capture.columns("api", *SPANS, "global_tid")
    threads, codes = distinct(calls["global_tid"])
    ends = np.cumsum(np.bincount(codes, minlength=len(threads)))[:-1]
    rows = np.split(np.argsort(codes, kind="stable"), ends)
    spans = [(calls["start_ns"][mine], calls["end_ns"][mine]) for mine in rows]
    return {thread: union(*span) for thread, span in zip(threads.tolist(), spans, strict=True)}


def _idle(capture: Capture) -> Covers:
    """Return when no GPU worked for a process, between its first operation and its last one."""
    operations = gpu_operations_of(capture)
    idle = {}
    for process in operations.processes:
        mine = operations.global_pid == process
        busy = union(operations.start_ns[mine], operations.end_ns[mine])
        idle[process] = IntervalSet(busy.end[:-1], busy.start[1:])
    return idle


def _length(covers: Covers) -> int:
    return sum(cover.length for cover in covers.values())


def _inside(parts: Sequence[Covers], wholes: Covers) -> list[int]:
    """Return the time of each part inside the whole of the same owner, in ns."""
    inside = [0] * len(parts)
    for owner, whole in wholes.items():
        mine = [(number, part[owner]) for number, part in enumerate(parts) if owner in part]
        if not mine:
            continue
        # One call for all parts: the whole can have a million intervals.
        taken = whole.within(
            *(np.concatenate(ends) for ends in zip(*(cover for _, cover in mine), strict=True))
        )
        for number, cover in mine:
            inside[number] += int(taken[: len(cover.start)].sum())
            taken = taken[len(cover.start) :]
    return inside
