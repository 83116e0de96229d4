"""NVTX ranges by name: what the launches inside them cost, per instance.

A call is inside a range if it begins there, on the range's thread or on a thread that this one waits for: see
`timing_audit.causation`. A call counts in every range around it. Of the calls inside are given:

- the launches, as their number, and the sum of the time in these calls;
- the time of the range in which at least one of these launches had returned and its GPU work had not started;
  waits that overlap count once, and waits after the end of the range do not count;
- the sums of the durations of the kernels and graphs, and of the copies and memsets, that the calls inside
  started, also where these run after the range;
- the time in synchronizing calls of the range's own thread.

Each median is over all instances of the name, those with 0 included. Ranges are those selected, whole; calls
and GPU work are those of the whole capture. Unified-memory migrations belong to no call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import GroupBy
from nsyswrap.analysis.arrays.spans import EnclosedCalls, Spans
from nsyswrap.analysis.gpu_operations import KINDS, MEMCPY, MEMSET, gpu_operations_of, operation_notes
from nsyswrap.analysis.launches import Launches, launches_of
from nsyswrap.analysis.names import CLASSES, SYNCHRONISE, call_classes
from nsyswrap.analysis.nvtx_ranges import closed_ranges, moved_notes, own_texts
from nsyswrap.analysis.timing_audit.causation import adopted_notes, launched_for
from nsyswrap.analysis.timing_audit.range_work import covered, members
from nsyswrap.base.units import Unit
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.stream import one_of
from nsyswrap.reports.table import Column, Report, Result, Schema, Values, rows_of

_TIMES = (
    "api",
    "queued",
    "kernel",
    "copy",
    "sync",
)  # of which the medians are given, in order of the columns


def compute(capture: Capture) -> Result:
    """Return one row per range name, in order of first appearance."""
    ranges, codes, names = _ranges(capture)
    sums, adopted = _per_range(capture, ranges)
    groups = GroupBy(codes, len(names))
    data: dict[str, Values] = {
        "range": names,
        "instances": np.bincount(codes, minlength=len(names)),
        "launches": groups.of(sums["launches"]).avg,
        "range_med_ns": groups.quantile(ranges.end - ranges.start, 0.5),
        **{f"{field}_med_ns": groups.quantile(sums[field], 0.5) for field in _TIMES},
    }
    appearance = np.argsort(np.unique(codes, return_index=True)[1], kind="stable")
    return Result(
        {name: rows_of(values, appearance) for name, values in data.items()},
        (*operation_notes(capture), *moved_notes(capture.whole), *adopted_notes(adopted)),
    )


def _per_range(capture: Capture, ranges: Spans) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Return the figures of each range, and the number of its launches by other threads."""
    whole = capture.whole
    per_call, launches = _per_call(whole), launches_of(whole)
    calls = Spans(*whole.columns("api", "global_tid", "start_ns", "end_ns").values())
    sums = {field: np.zeros(len(ranges.start), np.int64) for field in ("launches", *_TIMES)}
    adopted = np.zeros(len(ranges.start), np.int64)
    sums["sync"] = EnclosedCalls(calls, ranges).sum(per_call.pop("sync"))
    for marks, threads in launched_for(whole, ranges.thread, calls.thread):
        part = Spans(*(field[marks] for field in ranges))
        inside = EnclosedCalls(calls._replace(thread=threads), part)
        for field, values in per_call.items():
            sums[field][marks] = inside.sum(values)
        sums["queued"][marks] = _queued(launches, threads[launches.call], part)
        adopted[marks] = inside.sum(per_call["launches"] * (threads != calls.thread))
    return sums, adopted


def _queued(launches: Launches, threads: NDArray[Any], ranges: Spans) -> NDArray[Any]:
    """Return the time in each range in which at least one launch made in it waited for its GPU work."""
    total = np.zeros(len(ranges.start), np.int64)
    if not len(launches) or not len(total):
        return total
    inside = EnclosedCalls(Spans(threads, launches.start_ns, launches.end_ns), ranges)
    for rows, begins, held in members(inside.first, inside.last):
        waiting = inside.order[held]
        last = np.repeat(ranges.end[rows], np.diff(begins, append=len(held)))
        start = np.minimum(launches.end_ns[waiting], last)
        total[rows] = covered(begins, start, np.clip(launches.gpu_start_ns[waiting], start, last))
    return total


def _per_call(whole: Capture) -> dict[str, NDArray[Any]]:
    """Return 1 or 0 launches per API call, and its part of each time that is summed, in ns."""
    api = whole.columns("api", "start_ns", "end_ns")
    launches, operations = launches_of(whole), gpu_operations_of(whole)
    copying = one_of(operations.kind, (KINDS.index(MEMCPY), KINDS.index(MEMSET))) & (operations.call >= 0)
    copying &= ~np.isin(operations.call, launches.call)  # a graph's nodes count as launched work
    copies = operations.of(copying)
    spent, waits = api["end_ns"] - api["start_ns"], call_classes(whole) == CLASSES.index(SYNCHRONISE)

    def spread(call: NDArray[Any], values: NDArray[Any] | int) -> NDArray[Any]:
        sums = np.zeros(len(spent), np.int64)
        np.add.at(sums, call, values)
        return sums

    return {
        "launches": spread(launches.call, 1),
        "api": spread(launches.call, launches.api_ns),
        "kernel": spread(launches.call, launches.gpu_ns),
        "copy": spread(copies.call, copies.end_ns - copies.start_ns),
        "sync": np.where(waits, spent, 0),
    }


def _ranges(capture: Capture) -> tuple[Spans, NDArray[Any], list[str | None]]:
    """Return the selected closed ranges of one thread by start, codes of their names, these without domains.

    A range at the edge of what is selected is not cut: its calls and its time are those of the whole range.
    """
    rows, spans = closed_ranges(capture.whole)
    chosen = np.isin(rows, capture.columns("nvtx", "row")["row"] - 1)
    return Spans(*(field[chosen] for field in spans)), *own_texts(capture.whole, rows[chosen])


SCHEMA = Schema(
    "nvtx_phases",
    "Launches and GPU time in NVTX ranges",
    Column("range", "Range", "name of the NVTX range"),
    Column.count("instances", "Instances", "number of ranges with this name"),
    Column("launches", "Launches", "launch calls per instance (mean)", unit=Unit.RATIO),
    Column("range_med_ns", "Range Med", "median duration of the range on the CPU"),
    Column("api_med_ns", "API Med", "time in launch calls, median per instance"),
    Column(
        "queued_med_ns",
        "Queued Med",
        "time of the range with a launch waiting for its GPU work to start, median per instance",
        2,
    ),
    Column("kernel_med_ns", "Kernel Med", "GPU time of the launched kernels and graphs, median per instance"),
    Column("copy_med_ns", "Copy Med", "GPU time of the launched copies and memsets, median per instance"),
    Column(
        "sync_med_ns", "Sync Med", "time of the range's thread in synchronizing calls, median per instance"
    ),
)

REPORT = Report(SCHEMA, needs=(("nvtx",), ("api",)), compute=compute)
