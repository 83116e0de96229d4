"""NVTX ranges by name: what the launches inside them cost, per instance.

For every push/pop range: the calls inside that launched kernels or whole CUDA graphs, their queue times and
what they started (wherever that ran, also after the range), the copies and memsets that calls inside started,
and the time the range's thread waited in synchronising calls. Inside are calls of the range's thread and,
where one thread opens all of the program's ranges, of those that have none. Unified-memory migrations belong
to no call.
Medians are over the range's instances. A launch counts in every range around it. A range with a part in what
is selected counts whole, with all calls in it and what they started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.api_call_kinds import CLASSES, SYNCHRONISE, call_classes
from nsyswrap.analysis.arrays.groups import grouped
from nsyswrap.analysis.arrays.spans import Inside, Spans
from nsyswrap.analysis.gpu_operations import KINDS, MEMCPY, MEMSET, gpu_operations_of, operation_notes
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.nvtx_ranges import own_texts
from nsyswrap.analysis.timing_audit.causation import adopted_notes, launched_for
from nsyswrap.analysis.timing_audit.range_work import covered, members
from nsyswrap.base.units import Unit
from nsyswrap.capture.schema import NVTX_PUSH_POP
from nsyswrap.reports.table import Column, Report, Result, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.table import Values


def compute(capture: Capture) -> Result:
    """Return one row per range name, in order of first appearance."""
    ranges, codes, names = _ranges(capture)
    sums, adopted = _per_range(capture, ranges)
    per_range = {field: grouped(codes, values, len(names)) for field, values in sums.items()}
    data: dict[str, Values] = {
        "range": names,
        "instances": np.bincount(codes, minlength=len(names)),
        "launches": per_range.pop("launches").avg,
        "range_med_ns": grouped(codes, ranges.end - ranges.start, len(names)).med,
        **{f"{field}_med_ns": statistics.med for field, statistics in per_range.items()},
    }
    appearance = np.argsort(np.unique(codes, return_index=True)[1], kind="stable")
    return Result(
        {
            name: values[appearance] if isinstance(values, np.ndarray) else [values[i] for i in appearance]
            for name, values in data.items()
        },
        (*operation_notes(capture), *adopted_notes(adopted)),
    )


def _per_range(capture: Capture, ranges: Spans) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Return the sums over the calls in each range, and its launches by other threads.

    Only the waits of its own thread count.
    """
    whole = capture.whole
    per_call = _per_call(whole)
    calls = Spans(*whole.columns("api", "global_tid", "start_ns", "end_ns").values())
    sums = {field: np.zeros(len(ranges.start), np.int64) for field in per_call}
    adopted = np.zeros(len(ranges.start), np.int64)
    sums["sync"] = Inside(calls, ranges).sum(per_call.pop("sync"))
    for marks, threads in launched_for(whole, ranges.thread, calls.thread):
        inside = Inside(calls._replace(thread=threads), Spans(*(field[marks] for field in ranges)))
        for field, values in per_call.items():
            sums[field][marks] = inside.sum(values)
        adopted[marks] = inside.sum(per_call["launches"] * (threads != calls.thread))
    return sums, adopted


def _per_call(whole: Capture) -> dict[str, NDArray[Any]]:
    """Return 1 or 0 launches per API call, and its part of each time in ns."""
    api = whole.columns("api", "start_ns", "end_ns")
    launches, operations = launches_of(whole), gpu_operations_of(whole)
    copying = np.isin(operations.kind, (KINDS.index(MEMCPY), KINDS.index(MEMSET))) & (operations.call >= 0)
    copying &= ~np.isin(operations.call, launches.call)  # a graph's nodes count as launched work
    copies = operations.of(copying)
    spent, waits = api["end_ns"] - api["start_ns"], call_classes(whole) == CLASSES.index(SYNCHRONISE)
    # A kernel that starts before the call returns has no queue time.
    queue_ns = np.maximum(launches.gpu_start_ns - launches.end_ns, 0)

    def spread(call: NDArray[Any], values: NDArray[Any] | int) -> NDArray[Any]:
        sums = np.zeros(len(spent), np.int64)
        np.add.at(sums, call, values)
        return sums

    return {
        "launches": spread(launches.call, 1),
        "api": spread(launches.call, launches.api_ns),
        "queue": spread(launches.call, queue_ns),
        "kernel": spread(launches.call, launches.gpu_ns),
        "copy": spread(copies.call, copies.end_ns - copies.start_ns),
        "sync": np.where(waits, spent, 0),
    }


def _ranges(capture: Capture) -> tuple[Spans, NDArray[Any], list[str | None]]:
    """Return the closed push/pop ranges by start, a code of the name each, and the names without domains.

    The ranges are the selected ones, with whole times.
    """
    fields = ("start_ns", "end_ns", "event_type", "global_tid")
    chosen = capture.columns("nvtx", "row")["row"] - 1
    events = {field: values[chosen] for field, values in capture.whole.columns("nvtx", *fields).items()}
    closed = np.isin(events["event_type"], NVTX_PUSH_POP) & (events["end_ns"] >= events["start_ns"])
    rows = np.flatnonzero(closed)
    rows = rows[np.argsort(events["start_ns"][rows], kind="stable")]
    spans = Spans(*(events[field][rows] for field in ("global_tid", "start_ns", "end_ns")))
    return spans, *own_texts(capture, rows)


SCHEMA = Schema(
    name="nvtx_phases",
    title="Launching inside NVTX ranges",
    columns=(
        Column("range", "Range", Unit.TEXT, "name of the NVTX push/pop range"),
        Column("instances", "Instances", Unit.COUNT, "number of ranges with this name"),
        Column("launches", "Launches", Unit.RATIO, "launch calls per instance (mean)"),
        Column("range_med_ns", "Range Med", Unit.NS, "median duration of the range on the CPU"),
        Column("api_med_ns", "API Med", Unit.NS, "median per instance: time in launch calls"),
        Column(
            "queue_med_ns",
            "Queue Med",
            Unit.NS,
            "median per instance: nsys' queue times of the launches",
            drop_order=2,
        ),
        Column(
            "kernel_med_ns",
            "Kernel Med",
            Unit.NS,
            "median per instance: GPU time of the kernels and graphs launched",
        ),
        Column(
            "copy_med_ns",
            "Copy Med",
            Unit.NS,
            "median per instance: GPU time of copies and memsets",
        ),
        Column("sync_med_ns", "Sync Med", Unit.NS, "median per instance: time in synchronising calls"),
    ),
)

REPORT = Report(SCHEMA, needs=(("nvtx",), ("api",)), compute=compute)
