"""NVTX range kernel summary: GPU time of kernels by the NVTX ranges around their launches.

A kernel counts in every range around its launch; one launched outside of all stands under an empty range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys, grouped
from nsyswrap.analysis.arrays.spans import enclosures
from nsyswrap.analysis.correlation import launch_pairs_of, process_notes
from nsyswrap.analysis.names import durations, name_codes
from nsyswrap.analysis.nvtx_ranges import STYLES, call_spans, nested_ranges
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import Unit
from nsyswrap.capture.global_ids import process_ids, thread_ids
from nsyswrap.reports.columns import TOTAL_TIME, stat_columns, stat_values
from nsyswrap.reports.table import Column, Report, Result, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.nvtx_ranges import Ranges
    from nsyswrap.capture.capture import Capture


class _Met(NamedTuple):
    """One entry per kernel and range around its launch. -1 stands for no call or no range."""

    kernel: NDArray[Any]
    call: NDArray[Any]
    range: NDArray[Any]


def compute(capture: Capture) -> Result:
    """Return one row per range name, process, thread, style and kernel name, in nsys' order."""
    ranges = nested_ranges(capture)
    met = _meet(capture, ranges)
    thread = np.append(capture.columns("api", "global_tid")["global_tid"], MISSING)[met.call]
    kernel_codes, kernel_names = name_codes(capture, "kernel")
    codes, (name, process, thread, style, kernel) = group_keys(
        np.append(ranges.code, -1)[met.range],
        process_ids(thread),
        thread_ids(thread),
        np.append(ranges.style, -1)[met.range],
        kernel_codes[met.kernel],
    )
    groups = len(name)
    stats = grouped(codes, durations(capture, "kernel")[met.kernel], groups)
    order = np.lexsort((-stats.total, thread, process, name))
    inside = met.range >= 0
    numbers = {
        "process_id": process,
        "thread_id": thread,
        "range_instances": _distinct(codes[inside], met.range[inside], groups),
        "kernel_instances": _distinct(codes, met.kernel, groups),
        "total_ns": stats.total,
        **stat_values(stats),
    }
    return Result(
        {
            "range": ranges.labels(name[order]),
            "style": [STYLES[i] if i >= 0 else None for i in style[order].tolist()],
            **{column: values[order] for column, values in numbers.items()},
            "kernel_name": [kernel_names[i] for i in kernel[order].tolist()],
        },
        (*ranges.notes, *process_notes(capture, "kernel")),
    )


def _meet(capture: Capture, ranges: Ranges) -> _Met:
    pairs = launch_pairs_of(capture)
    inner, outer = enclosures(call_spans(capture, pairs.api), ranges.spans)
    outside = np.setdiff1d(np.arange(len(pairs.api)), inner)
    launched = np.concatenate((inner, outside))
    without = np.setdiff1d(np.arange(capture.count("kernel")), pairs.operation)
    return _Met(
        np.concatenate((pairs.operation[launched], without)),
        np.concatenate((pairs.api[launched], np.full(len(without), -1))),
        np.concatenate((outer, np.full(len(outside) + len(without), -1))),
    )


def _distinct(codes: NDArray[Any], numbers: NDArray[Any], groups: int) -> NDArray[Any]:
    """Return how many different numbers each group has."""
    return np.bincount(group_keys(codes, numbers)[1][0], minlength=groups)


SCHEMA = Schema(
    name="nvtx_kern_sum",
    title="NVTX Range Kernel Summary",
    columns=(
        Column(
            "range", "NVTX Range", Unit.TEXT, "domain and name of the range; empty: outside of all ranges"
        ),
        Column("style", "Style", Unit.TEXT, "PushPop or StartEnd", drop_order=2),
        Column("process_id", "PID", Unit.ID, "process that launched", drop_order=3),
        Column("thread_id", "TID", Unit.ID, "thread that launched", drop_order=4),
        Column("range_instances", "NVTX Inst", Unit.COUNT, "ranges of this name around these launches"),
        Column("kernel_instances", "Kern Inst", Unit.COUNT, "executions of this kernel"),
        TOTAL_TIME,
        *stat_columns(),
        Column(
            "kernel_name", "Kernel Name", Unit.TEXT, "kernel name (demangled, base or mangled)", kernels=True
        ),
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(("nvtx",), ("kernel",), ("api",)),
    compute=compute,
    rows_from=("kernel",),
    qualifiers=("base", "mangled"),
)
