"""NVTX ranges by name: whether the time of a range is that of the GPU work launched in it.

Each range is judged by the API calls and GPU operations of the whole capture, not by its name. Ranges that
end on another thread are left out. A range is complete if no earlier work was running when it began, and all
work launched in it had ended when it ended. Earlier work was launched before, by the same thread or into the
same streams.

The expected time lasts from the start of a range to the end of both the range and its own work, without the
time lost to earlier work. That is the time in synchronizing calls before its first launch while earlier work
ran, and the wait of its first operation for earlier work after that call. Launches of another thread count
for a range whose thread waits for them, as for PyTorch's backward. Other work of that thread does not change
the verdict; a note says that it overlaps. Unified-memory migrations belong to no call and to no range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import GroupBy, group_keys
from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.gpu_operations import KINDS, GpuOperations, gpu_operations_of, operation_notes
from nsyswrap.analysis.launches import READS
from nsyswrap.analysis.no_gpu_work import was_traced
from nsyswrap.analysis.nvtx_ranges import ALL, range_labels
from nsyswrap.analysis.timing_audit import (
    COMPLETE,
    EARLIER,
    LAUNCH_ONLY,
    MIXED,
    NOTHING,
    TOLERANCE_NS,
    VERDICTS,
    Audit,
    audit,
)
from nsyswrap.analysis.timing_audit.causation import adopted_notes, overlap_notes
from nsyswrap.base.constants import MISSING
from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit, human
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.selection import process_ids
from nsyswrap.capture.stream import one_of
from nsyswrap.reports.table import Column, Report, Result, Schema, Values
from nsyswrap.reports.wording.notes import HOW_TO_TELL

STEADY, WARM_UP = PHASES = ("steady", "warm-up")
_DOES = {
    LAUNCH_ONLY: "ends before its GPU work",
    EARLIER: "includes earlier GPU work",
    MIXED: "includes earlier GPU work, and ends before its own",
}


def compute(capture: Capture) -> Result:
    """Return a row per name, phase and verdict: names by appearance, verdicts by frequency."""
    ranges = audit(capture)
    names, texts = range_labels(capture.whole, ranges.row)
    codes, (name, phase, verdict) = group_keys(names, ranges.warm_up.astype(np.int64), ranges.verdict)
    count = np.bincount(codes, minlength=len(name))
    appearance = np.argsort(np.unique(names, return_index=True)[1], kind="stable").argsort()
    order = np.lexsort((verdict, -count, phase, appearance[name]))
    data: dict[str, Values] = {
        "range": [texts[i] for i in name[order].tolist()],
        "phase": [PHASES[i] for i in phase[order].tolist()],
        "verdict": [VERDICTS[i] for i in verdict[order].tolist()],
        "instances": count[order],
    }
    data |= {column: values[order] for column, values in _times(ranges, codes, len(name)).items()}
    return Result(data, tuple(_notes(capture, ranges)))


def _times(ranges: Audit, codes: NDArray[Any], groups: int) -> dict[str, NDArray[Any]]:
    """Return the statistics of each group, missing if no range in it has the value."""
    every = GroupBy(codes, groups)

    def median(values: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
        return GroupBy(codes[known], groups).quantile(values[known], 0.5)

    timed = ranges.should_ns > 0
    error = 100.0 * (ranges.host_ns - ranges.should_ns) / np.maximum(ranges.should_ns, 1)
    sparse = {
        "error_med_percent": median(error, timed),
        "own_end_after_med_ns": median(ranges.own_end_after_ns, ranges.own_end_after_ns != MISSING),
        "reported_med_ns": median(ranges.reported_ns, ranges.reported_ns != MISSING),
        "events_med_ns": median(ranges.events_ns, ranges.events_ns != MISSING),
    }
    return {
        "launches": every.of(ranges.launches).avg,
        "host_med_ns": every.quantile(ranges.host_ns, 0.5),
        "host_p95_ns": every.quantile(ranges.host_ns, 0.95),
        "should_med_ns": every.quantile(ranges.should_ns, 0.5),
        "api_med_ns": every.quantile(ranges.api_ns, 0.5),
        "sync_med_ns": every.quantile(ranges.sync_ns, 0.5),
        "own_gpu_med_ns": every.quantile(ranges.own_gpu_ns, 0.5),
        "own_busy_med_ns": every.quantile(ranges.own_busy_ns, 0.5),
        "earlier_med_ns": every.quantile(ranges.earlier_ns, 0.5),
        "other_gpu_med_ns": every.quantile(ranges.other_ns, 0.5),
        **sparse,
    }


def _notes(capture: Capture, ranges: Audit) -> Iterator[Note | str]:
    whole = capture.whole
    yield from operation_notes(whole)
    if capture.view.selection.narrows:
        yield ("selected ranges count whole, with calls and GPU work of the whole capture")
    events = whole.columns("nvtx", "event_type")["event_type"]
    if left := np.count_nonzero(one_of(events, ALL)) - len(audit(whole)):
        yield f"excluded NVTX ranges, without an end or on another thread: {left}"
    yield from adopted_notes(ranges.adopted)
    yield from overlap_notes(whole, ranges.uncaused_ns)
    operations = gpu_operations_of(whole)
    if not len(operations):
        how = "" if was_traced(capture, "cuda") else " (nsyswrap profile --trace cuda,nvtx)"
        yield f"no GPU work recorded: the launches of the ranges are unknown{how}"
    if migrated := np.count_nonzero(operations.migration):
        yield (f"migrations of unified memory: {migrated}; not launched by a call, so counted for no range")
    if lone := np.count_nonzero((operations.call < 0) & ~operations.migration):
        yield (f"GPU operations without a recorded API call: {lone}; counted from their start")
    if ranges.other_ns.any() and (processes := _sharing(operations)):
        listed = ", ".join(map(str, processes))
        yield f"other GPU work includes processes with a device of the same id: {listed}"


def _sharing(operations: GpuOperations) -> list[int]:
    """Return the ids of processes that share a device with another process."""
    _, (owners, devices) = group_keys(operations.global_pid, operations.device_id)
    processes = process_ids(owners)
    return sorted(
        {
            int(process)
            for process, device in zip(processes, devices, strict=True)
            if (devices == device).sum() > 1
        }
    )


def conclude(capture: Capture, data: Mapping[str, Values]) -> str:
    """Return how many names time what they launch, which of the others is off by most, and what overlaps."""
    return _conclusion(data) + _overlap(capture)


def _overlap(capture: Capture) -> str:
    """Return how many ranges overlap with work of a thread that they are not seen to wait for."""
    ranges = audit(capture)
    count = np.count_nonzero(ranges.uncaused_ns)
    if not count:
        return ""
    how = "" if capture.whole.has("osrt") else f"; to tell, {HOW_TO_TELL}"
    return f"; GPU work of another thread overlaps {counted(int(count), 'ranges')} and is not counted{how}"


def _conclusion(data: Mapping[str, Values]) -> str:
    rows = _with_work(data)
    if not rows:
        return "no NVTX range launches GPU work or waits for it"
    instances: dict[str | None, int] = {}
    for row in rows:
        instances[row["range"]] = instances.get(row["range"], 0) + row["instances"]
    wrong = [row for row in rows if row["verdict"] != COMPLETE]
    right = len(instances) - len({row["range"] for row in wrong})
    summary = f"{right:,} of {len(instances):,} range names time their GPU work correctly"
    if not wrong:
        return summary
    worst = max(wrong, key=lambda row: _weight(row, instances[row["range"]]))
    host, should = (human(float(worst[name]), Unit.NS) for name in ("host_med_ns", "should_med_ns"))
    every = instances[worst["range"]]
    count = f"{worst['instances']:,} of {every:,} instances" if every > 1 else "1 instance"
    name = "an unnamed range" if worst["range"] is None else f"'{worst['range']}'"
    return f"{summary}; {name} ({count}) {_DOES[worst['verdict']]}: {host}, expected {should}"


def _with_work(data: Mapping[str, Values]) -> list[dict[str, Any]]:
    """Return the rows about GPU work, without warm-up if there are others."""
    rows = [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]
    rows = [row for row in rows if row["verdict"] != NOTHING]
    return [row for row in rows if row["phase"] == STEADY] or rows


def _weight(row: Mapping[str, Any], instances: int) -> tuple[bool, bool, bool, float]:
    """Return the rank for the verdict: measured by the program, no library's, repeated, large error."""
    measured = not np.isnan(row["reported_med_ns"])
    error = abs(np.nan_to_num(row["error_med_percent"]))
    return measured, "@" not in (row["range"] or ""), instances > 1, float(error)


SCHEMA = Schema(
    "timing_audit",
    "NVTX timing check",
    Column("range", "Range", "name of the NVTX range, as --nvtx takes it: NAME@DOMAIN"),
    Column(
        "phase",
        "Phase",
        "warm-up: contains the first launch of a kernel in its process, or loads a module; else steady",
    ),
    Column(
        "verdict",
        "Verdict",
        "complete: from an idle GPU to the end of its own work; launch only: ends before its own "
        "work; includes earlier work: earlier launches were still running; mixed: both (from "
        f"{TOLERANCE_NS} ns on)",
    ),
    Column.count("instances", "Instances", "ranges of this name, phase and verdict"),
    Column("launches", "Launches", "calls per instance that started GPU work (mean)", 3, unit=Unit.RATIO),
    Column("host_med_ns", "Host Med", "median duration of the range on the CPU"),
    Column("host_p95_ns", "Host P95", "95th percentile of these durations", 8),
    Column(
        "should_med_ns",
        "Expected",
        "median time from the start to the end of the range and its own work, without waiting for "
        "earlier work",
    ),
    Column(
        "error_med_percent",
        "Error",
        "median deviation of the range from the expected time; negative: too short",
    ),
    Column(
        "reported_med_ns",
        "Reported",
        "median host time that the program measured itself, by nsyswrap.measure",
        2,
    ),
    Column("events_med_ns", "CUDA Events", "median time between the CUDA events of nsyswrap.measure", 2),
    Column("api_med_ns", "API Med", "median time of the range's thread in CUDA calls", 6),
    Column("sync_med_ns", "Sync Med", "median part of that in synchronizing calls", 4),
    Column("own_gpu_med_ns", "GPU Time", "median sum of the durations of its own GPU work", 1),
    Column(
        "own_busy_med_ns",
        "GPU Busy",
        "median time with own GPU work running; less than GPU Time if it overlaps",
        9,
    ),
    Column(
        "own_end_after_med_ns",
        "Overrun",
        "median time from the end of the range to the end of its own GPU work; negative: the work "
        "ended first",
        1,
    ),
    Column(
        "earlier_med_ns",
        "Earlier Work",
        "median time from the start of the range until earlier work of its thread or streams ended",
        2,
    ),
    Column(
        "other_gpu_med_ns",
        "Other GPU Work",
        "median time with work of other threads or processes on the same devices",
        5,
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(("nvtx",), ("api",)),
    rows_from=("nvtx",),
    compute=compute,
    conclude=conclude,
    reads={
        "nvtx": (*SPANS, "event_type", "global_tid", "end_global_tid", "domain_id", "text", "text_id"),
        **{kind: READS[kind] for kind in (*KINDS, "api")},
    },
)
