"""When a GPU had nothing to do for a process, and why: what the host was doing meanwhile.

A gap is a time without any operation of a process on a device, between its first and its last, or the ends of
what is selected. The host's side is that of the thread which launched what ended the gap: in a synchronise,
an allocation, a module load or another call, in the launch itself, or outside of all CUDA calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.arrays.spans import Spans, closest
from nsyswrap.analysis.gpu_gaps import CAUSES, gaps_of
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
from nsyswrap.base.units import Unit, duration, percent
from nsyswrap.capture.global_ids import process_ids, thread_ids
from nsyswrap.capture.schema import SPANS
from nsyswrap.reports.columns import KERNEL_NAMES
from nsyswrap.reports.table import Column, Order, Report, Result, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_gaps import Gaps
    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.table import Values

_WORTH_PERCENT = 1.0  # of the idle time: causes with less are not in the verdict
_MOST = 0.5  # of a cause's time: the verdict names a range with more


def compute(capture: Capture) -> Result:
    """Return one row per gap, by process and device, then in order of time."""
    gaps = gaps_of(capture)
    ranges, range_notes = _ranges(capture.whole, gaps)
    ends = {side: _names(capture, gaps, getattr(gaps, side)) for side in ("before", "after")}
    return Result(
        {
            "start_ns": gaps.start_ns,
            "duration_ns": gaps.duration_ns,
            "cause": np.array(list(CAUSES.values()), dtype=object)[gaps.cause],
            "nvtx": ranges,
            **ends,
            "process_id": process_ids(gaps.global_pid),
            "device_id": gaps.device_id,
            "thread_id": thread_ids(gaps.thread),
            **{f"{cause}_ns": part for cause, part in gaps.parts.items()},
        },
        (*_notes(capture, gaps), *range_notes),
    )


def _names(capture: Capture, gaps: Gaps, operations: NDArray[Any]) -> NDArray[Any]:
    """Return the names of operations by position; None where there is none."""
    texts = np.full(len(operations), None, dtype=object)
    known = np.flatnonzero(operations >= 0)
    texts[known] = names(capture, gaps.operations.of(operations[known]))
    return texts


def _ranges(whole: Capture, gaps: Gaps) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return the name of the thread's innermost range in the middle of each gap, or None, and notes."""
    range_names = np.full(len(gaps), None, dtype=object)
    if not whole.has("nvtx"):
        return range_names, ()
    ranges = nested_ranges(whole)
    middle = gaps.start_ns + gaps.duration_ns // 2
    # The innermost is the one that started last; ranges of start/end need not lie in each other.
    holder = closest(Spans(gaps.thread, middle, middle), ranges.spans, -ranges.spans.start)
    inside = np.flatnonzero(holder >= 0)
    holders, positions = distinct(holder[inside])
    codes, texts = own_texts(whole, ranges.row[holders] - 1)
    range_names[inside] = np.array(texts, dtype=object)[codes[positions]]
    return range_names, ranges.notes


def _notes(capture: Capture, gaps: Gaps) -> Iterator[str]:
    operations = gpu_operations_of(capture)
    yield from operation_notes(capture)
    if len(operations) and not len(gaps):
        yield "no gap: something ran all the time from the first operation to the last"
    if graphs := int((operations.kind == KINDS.index(GRAPH)).sum()):
        yield f"whole-graph executions ({graphs:,}) count as work: gaps inside them are not recorded"
    devices = [device for _, device, _ in operations.by_device()]
    if any(devices.count(device) > 1 for device in devices):
        yield "several processes used one device: in a gap of one of them another may have run"
    ends = np.concatenate((gaps.before, gaps.after))
    yield from name_notes(capture, gaps.operations.of(ends[ends >= 0]))


def conclude(capture: Capture, data: Mapping[str, Values]) -> str:
    """Return how much of the time nothing ran, and why."""
    gaps, operations = gaps_of(capture), gpu_operations_of(capture)
    lengths = [windows(capture, operations.of(rows)).length for _, _, rows in operations.by_device()]
    total, every = int(gaps.duration_ns.sum()), sum(lengths)
    spent = {cause: int(part.sum()) for cause, part in gaps.parts.items()}
    causes = [
        f"{percent(100 * time / total)} {CAUSES[cause]}{_more(cause, capture, data)}"
        for cause, time in sorted(spent.items(), key=lambda part: -part[1])
        if 100 * time >= _WORTH_PERCENT * total
    ]
    added = f" of {len(lengths)} pairs of process and device added up" if len(lengths) > 1 else ""
    return f"Idle {duration(total)}, {percent(100 * total / every)} of the time{added}: {'; '.join(causes)}."


def _more(cause: str, capture: Capture, data: Mapping[str, Values]) -> str:
    if cause == "host":
        return _mostly_in(data)
    return _in_first_launches(capture, gaps_of(capture)) if cause == "launch" else ""


def _mostly_in(data: Mapping[str, Values]) -> str:
    """Return the NVTX range that holds most of the host's own time; empty if none does."""
    spent: dict[str | None, int] = {}
    for name, time in zip(data["nvtx"], np.asarray(data["host_ns"]).tolist(), strict=True):
        spent[name] = spent.get(name, 0) + time
    most = max(spent, key=lambda name: spent[name])
    named = most is not None and spent[most] >= _MOST * sum(spent.values())
    return f" (mostly in NVTX range {most!r})" if named else ""


def _in_first_launches(capture: Capture, gaps: Gaps) -> str:
    """Return how much of the launch time was in first launches of a kernel or graph."""
    launches = launches_of(capture.whole)
    first, part = np.isin(gaps.call, launches.call[launches.first]), gaps.parts["launch"]
    share = 100 * part[first].sum() / part.sum()
    return f" ({percent(share)} of it inside first launches)" if share >= _WORTH_PERCENT else ""


def _part(cause: str, header: str, meaning: str) -> Column:
    return Column(f"{cause}_ns", header, Unit.NS, f"part of the gap: {meaning}", 6)


SCHEMA = Schema(
    name="gpu_idle",
    title="GPU idle: gaps and what the host did",
    columns=(
        Column(
            "start_ns", "Start", Unit.NS, "end of the operation before it, or start of what is selected", 3
        ),
        Column(
            "duration_ns", "Duration", Unit.NS, "time without any operation of this process on the device"
        ),
        Column("cause", "Cause", Unit.TEXT, "what took the largest part of it: one of the columns below"),
        Column("nvtx", "NVTX Range", Unit.TEXT, "innermost range of that thread, in the middle of the gap"),
        Column("before", "Before", Unit.TEXT, "the operation that ended last before it", 2, kernels=True),
        Column("after", "After", Unit.TEXT, "the operation that ended it", kernels=True),
        Column("process_id", "PID", Unit.ID, "process that had nothing running", 5),
        Column("device_id", "Device", Unit.ID, "device it had nothing running on", 4),
        Column(
            "thread_id", "TID", Unit.ID, "thread that launched the operation after it: the host's side", 5
        ),
        _part("profiler", "Profiler", "nsys itself at work in the thread"),
        _part("load", "Loading", "the thread created a context or loaded modules, be it inside a launch"),
        _part("allocate", "Allocating", "the thread allocated or freed memory"),
        _part("synchronise", "Synchronise", "the thread was in a synchronising call"),
        _part("launch", "Launch", "the thread was in a launch call, or its launch on the way to the GPU"),
        _part("copy", "Copy", "the thread was in a copy or memset call, or that on its way to the GPU"),
        _part("call", "Other Call", "the thread was in any other CUDA call"),
        _part("host", "Host", "the thread was in no CUDA call"),
        _part("queued", "Queued", "the next operation had been launched: a dependency, or the GPU's latency"),
        _part(
            "migration", "Migration", "unified memory moved pages after it: the host used them, or a prefetch"
        ),
        _part("unknown", "Unknown", "no recorded call launched what followed, or nothing did follow"),
    ),
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
)
