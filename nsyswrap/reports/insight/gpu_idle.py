"""When a GPU was idle, and what the host was doing in that time.

A gap is a time without any operation of a process on a device. Gaps lie between its first and its last
operation, or inside the selection. The cause of a gap is what the thread that launched the next operation did
in that time: a synchronizing call, an allocation, loading a module, another CUDA call, the launch itself, or
host code outside CUDA calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.arrays.spans import Spans, closest
from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.gpu_gaps import CAUSES, Gaps, gaps_of
from nsyswrap.analysis.gpu_operations import (
    GRAPH,
    KINDS,
    gpu_operations_of,
    name_notes,
    names,
    operation_notes,
    windows,
)
from nsyswrap.analysis.launches import READS, launches_of
from nsyswrap.analysis.nvtx_ranges import nested_ranges, own_texts
from nsyswrap.analysis.range_texts import HOLDING, STATES, WAITING, gil_parts, of_the_program
from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import duration, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.selection import process_ids, thread_ids
from nsyswrap.reports.table import KERNEL_NAMES, Column, Order, Report, Result, Schema, Values
from nsyswrap.reports.wording.states import CAUSE_NAMES

_WORTH_PERCENT = 1.0  # of the idle time: causes with less are not in the verdict
_MOST = 0.5  # of a cause's time: the verdict names a range with more


def compute(capture: Capture) -> Result:
    """Return one row per gap, by process and device, then in order of time."""
    return _result(capture, np.arange(len(gaps_of(capture))))


def compute_longest(capture: Capture, count: int) -> Result:
    """Return the rows of the ``count`` longest gaps alone."""
    return _result(capture, gaps_of(capture).longest(count))


def _result(capture: Capture, rows: NDArray[Any]) -> Result:
    gaps = gaps_of(capture)
    ranges, range_notes = _ranges(capture)
    parts = gaps.parts_of(rows)
    causes = np.argmax(np.stack(list(parts.values())), axis=0)
    ends = {side: _names(capture, gaps, getattr(gaps, side)[rows]) for side in ("before", "after")}
    return Result(
        {
            "start_ns": gaps.start_ns[rows],
            "duration_ns": gaps.duration_ns[rows],
            "cause": TextColumn(causes, [CAUSE_NAMES[cause] for cause in CAUSES]),
            "nvtx": ranges[rows],
            **ends,
            "process_id": process_ids(gaps.global_pid[rows]),
            "device_id": gaps.device_id[rows],
            "thread_id": thread_ids(gaps.thread[rows]),
            **{f"{cause}_ns": part for cause, part in parts.items()},
            **{f"host_gil_{state}_ns": ns[rows] for state, ns in _gil(capture).items()},
        },
        (*_notes(capture, gaps), *range_notes),
        left_out=len(gaps) - len(rows),
    )


def _names(capture: Capture, gaps: Gaps, operations: NDArray[Any]) -> TextColumn:
    """Return the names of operations by position; None where there is none."""
    known = np.flatnonzero(operations >= 0)
    texts = names(capture, gaps.operations.of(operations[known]))
    codes = np.zeros(len(operations), np.int32)
    codes[known] = texts.codes + 1
    return TextColumn(codes, [None, *texts.texts])


def _gil(capture: Capture) -> dict[str, NDArray[Any]]:
    """Return the time of host code in each gap holding Python's lock, and waiting for it."""
    parts, count = gil_parts(capture), len(gaps_of(capture))
    if parts is None:
        return {state: np.full(count, MISSING) for state in STATES}
    sums = {state: np.zeros(count, np.int64) for state in STATES}
    for state, (gap, start, end) in parts.items():
        np.add.at(sums[state], gap, end - start)
    return sums


@per_capture
def _ranges(capture: Capture) -> tuple[TextColumn, tuple[Note, ...]]:
    """Return the name of the thread's innermost range in the middle of each gap, or None, and notes."""
    whole, gaps = capture.whole, gaps_of(capture)
    if not whole.has("nvtx"):
        return TextColumn.repeated(None, len(gaps)), ()
    ranges = nested_ranges(whole)
    middle = gaps.start_ns + gaps.duration_ns // 2
    named = np.flatnonzero(of_the_program(whole, ranges.row - 1))
    spans = Spans(*(field[named] for field in ranges.spans))
    # The innermost is the one that started last; ranges of start/end need not lie in each other.
    holder = closest(Spans(gaps.thread, middle, middle), spans, -spans.start)
    inside = np.flatnonzero(holder >= 0)
    holders, positions = distinct(named[holder[inside]])
    codes, texts = own_texts(whole, ranges.row[holders] - 1)
    range_codes = np.zeros(len(gaps), np.int32)
    range_codes[inside] = codes[positions] + 1
    return TextColumn(range_codes, [None, *texts]), ranges.notes


def _notes(capture: Capture, gaps: Gaps) -> Iterator[Note | str]:
    operations = gpu_operations_of(capture)
    yield from operation_notes(capture)
    if len(operations) and not len(gaps):
        yield "no idle gaps: the GPU was busy from the first operation to the last"
    if graphs := int((operations.kind == KINDS.index(GRAPH)).sum()):
        yield f"whole-graph executions ({graphs:,}) count as busy; gaps inside them are not recorded"
    devices = [device for _, device, _ in operations.by_device()]
    if len(set(devices)) < len(devices):
        yield "several processes used one device; in a gap of one process, another may have run"
    ends = np.concatenate((gaps.before, gaps.after))
    yield from name_notes(capture, gaps.operations.of(ends[ends >= 0]))


def conclude(capture: Capture, _: Mapping[str, Values]) -> str:
    """Return how much of the time nothing ran, and why."""
    gaps, operations = gaps_of(capture), gpu_operations_of(capture)
    lengths = [windows(capture, operations.of(rows)).length for _, _, rows in operations.by_device()]
    total, every = int(gaps.duration_ns.sum()), sum(lengths)
    causes = [
        f"{percent(100 * time / total)} {CAUSE_NAMES[cause]}{_more(cause, capture)}"
        for cause, time in sorted(gaps.spent_ns.items(), key=lambda item: -item[1])
        if 100 * time >= _WORTH_PERCENT * total
    ]
    added = f", sum of {len(lengths)} process and device pairs" if len(lengths) > 1 else ""
    where = "in the selection" if capture.view.selection.windowed else "from first to last operation"
    return (
        f"GPU idle for {duration(total)} {where} ({percent(100 * total / every)} of that time{added}). "
        f"Of the idle time: {'; '.join(causes)}."
    )


def _more(cause: str, capture: Capture) -> str:
    if cause == "host":
        found = _mostly_in(*_parts_of_cause(gaps_of(capture), cause), _ranges(capture)[0])
        return found + _gil_text(capture, gaps_of(capture).spent_ns[cause])
    return _in_first_launches(capture, gaps_of(capture)) if cause == "launch" else ""


def _parts_of_cause(gaps: Gaps, cause: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the gap and the duration of each segment with this cause."""
    gap, start, end, number = gaps.segments
    mine = np.flatnonzero(number == CAUSES.index(cause))
    return gap[mine], end[mine] - start[mine]


def _mostly_in(gap: NDArray[Any], time_ns: NDArray[Any], ranges: TextColumn) -> str:
    """Return the NVTX range that holds most of the host's own time; empty if none does."""
    sums = np.zeros(len(ranges.texts), np.int64)
    np.add.at(sums, ranges.codes[gap], time_ns)
    spent: dict[str | None, int] = {}
    for name, time in zip(ranges.texts, sums.tolist(), strict=True):
        spent[name] = spent.get(name, 0) + time
    most = max(spent, key=lambda name: spent[name])
    named = most is not None and spent[most] >= _MOST * sum(spent.values())
    return f" (mostly in NVTX range {most!r})" if named else ""


def _gil_text(capture: Capture, host_ns: int) -> str:
    """Return how much of the host code held Python's lock or waited for it; empty if that was not traced."""
    sums = {state: int(ns.sum()) for state, ns in _gil(capture).items()}
    if gil_parts(capture) is None or not host_ns:
        return ""
    shares = {state: percent(100 * ns / host_ns) for state, ns in sums.items()}
    return f" ({shares[HOLDING]} of it holding Python's GIL, {shares[WAITING]} waiting for it)"


def _in_first_launches(capture: Capture, gaps: Gaps) -> str:
    """Return how much of the launch time was in first launches of a kernel or graph."""
    launches = launches_of(capture.whole)
    first = np.isin(gaps.call, launches.call[launches.first])
    gap, time_ns = _parts_of_cause(gaps, "launch")
    share = 100 * time_ns[first[gap]].sum() / time_ns.sum()
    return f" ({percent(share)} of it inside first launches)" if share >= _WORTH_PERCENT else ""


def _cause(cause: str, header: str, meaning: str) -> Column:
    return Column(f"{cause}_ns", header, f"part of the gap: {meaning}", 6)


GIL_COLUMNS = tuple(
    Column(
        f"host_gil_{state}_ns",
        f"Host {header}",
        f"part of the host code: {meaning}; empty without --trace python-gil",
        8,
    )
    for state, header, meaning in (
        (HOLDING, "GIL Held", "the thread held Python's global interpreter lock"),
        (WAITING, "GIL Wait", "the thread was waiting for Python's global interpreter lock"),
    )
)

SCHEMA = Schema(
    "gpu_idle",
    "GPU idle gaps by cause",
    Column("start_ns", "Start", "end of the previous operation, or start of the selection", 3),
    Column("duration_ns", "Duration", "time without any operation of this process on the device"),
    Column("cause", "Cause", "cause of the largest part of the gap: one of the columns below"),
    Column("nvtx", "NVTX Range", "innermost range of the launching thread in the middle of the gap"),
    Column("before", "Before", "last operation before the gap", 2, kernels=True),
    Column("after", "After", "operation that ended the gap", kernels=True),
    Column("process_id", "PID", "process without a running operation", 5),
    Column("device_id", "Device", "device without a running operation", 4),
    Column("thread_id", "TID", "thread that launched the operation after the gap", 5),
    _cause("profiler", "Profiler", "nsys worked in the thread"),
    _cause("load", "Loading", "the thread created a context or loaded modules, also inside a launch"),
    _cause("allocate", "Allocating", "the thread allocated or freed memory"),
    _cause("synchronise", "Synchronizing", "the thread was in a synchronizing call"),
    _cause("launch", "Launching", "the thread was in a launch call, or the launch was on its way to the GPU"),
    _cause("copy", "Copy Calls", "the thread was in a copy or memset call, or the copy was on its way"),
    _cause("call", "Other Calls", "the thread was in another CUDA call"),
    _cause("host", "Host Code", "the thread was in no CUDA call"),
    _cause("queued", "Queued", "the next operation was launched already: a dependency, or GPU latency"),
    _cause("migration", "Migration", "unified memory pages migrated next: the host used them, or a prefetch"),
    _cause("unknown", "Unexplained", "no recorded call launched the next operation, or none followed"),
    *GIL_COLUMNS,
)

REPORT = Report(
    SCHEMA,
    needs=(KINDS,),
    compute=compute,
    order=(Order("duration_ns", descending=True),),
    qualifiers=KERNEL_NAMES,
    reads={
        **READS,
        "nvtx": ("row", *SPANS, "event_type", "global_tid", "end_global_tid", "domain_id", "text", "text_id"),
    },
    conclude=conclude,
    compute_top=compute_longest,
)
