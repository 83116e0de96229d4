"""NVTX range kernel summary: GPU time of kernels by the NVTX ranges around their launches.

A kernel counts in every range around its launch. A kernel that was launched outside of all ranges has an
empty range name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.arrays.groups import distinct, group_keys, grouped
from nsyswrap.analysis.arrays.spans import enclosures
from nsyswrap.analysis.correlation import launch_pairs_of, process_notes
from nsyswrap.analysis.names import name_codes
from nsyswrap.analysis.nvtx_ranges import READS, STYLES, Ranges, call_spans, nested_ranges
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import process_ids, thread_ids
from nsyswrap.reports.table import TOTAL_TIME, Column, Report, Result, Schema, stat_columns, stat_values


class _Met(NamedTuple):
    """One entry per kernel and range around its launch; range -1: none. ``context``: see ``_meet``."""

    kernel: NDArray[Any]
    range: NDArray[Any]
    context: NDArray[Any]


def compute(capture: Capture) -> Result:
    """Return one row per range name, process, thread, style and kernel name, in nsys' order."""
    ranges = nested_ranges(capture)
    met, threads = _meet(capture, ranges)
    group_of, groups = _groups(ranges, threads)
    kernel_of, kernel_names = name_codes(capture, "kernel")
    keys, codes = distinct(group_of[met.context] * len(kernel_names) + kernel_of[met.kernel])
    group, kernel = np.divmod(keys, len(kernel_names))
    name, process, thread, style = (values[group] for values in groups)
    stats = grouped(codes, capture.durations("kernel")[met.kernel], len(keys))
    order = np.lexsort((-stats.total, thread, process, name))
    inside = met.range >= 0
    numbers = {
        "process_id": process,
        "thread_id": thread,
        "range_instances": _distinct(codes[inside], met.range[inside], len(keys)),
        "kernel_instances": _distinct(codes, met.kernel, len(keys)),
        "total_ns": stats.total,
        **stat_values(stats),
    }
    return Result(
        {
            "range": ranges.labels(name[order]),
            "style": TextColumn(np.where(style < 0, len(STYLES), style)[order], (*STYLES, None)),
            **{column: values[order] for column, values in numbers.items()},
            "kernel_name": TextColumn(kernel[order], kernel_names),
        },
        (*ranges.notes, *process_notes(capture, "kernel")),
    )


def _meet(capture: Capture, ranges: Ranges) -> tuple[_Met, NDArray[Any]]:
    """Return where kernels and ranges meet, and the threads that launch outside of ranges.

    Contexts of launches are the ranges, then these threads. The last one is that of kernels without a call.
    """
    pairs = launch_pairs_of(capture)
    calls = call_spans(capture, pairs.api)
    inner, outer = enclosures(calls, ranges.spans)
    alone = np.ones(len(pairs.api), dtype=bool)
    alone[inner] = False
    threads, thread_of = distinct(calls.thread)
    without = np.ones(capture.count("kernel"), dtype=bool)
    without[pairs.operation] = False
    kernels = (pairs.operation[inner], pairs.operation[alone], np.flatnonzero(without))
    first = len(ranges.row)  # of the contexts that are no ranges
    contexts = (outer, first + thread_of[alone], np.full(len(kernels[2]), first + len(threads)))
    met = _Met(
        np.concatenate(kernels),
        np.concatenate((outer, np.full(len(kernels[1]) + len(kernels[2]), -1))),
        np.concatenate(contexts),
    )
    return met, threads


def _groups(ranges: Ranges, threads: NDArray[Any]) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Return the group of each context, and range name, process, thread and style of each group."""
    outside = np.full(len(threads) + 1, -1)
    owner = np.concatenate((ranges.spans.thread, threads, [MISSING]))
    return group_keys(
        np.concatenate((ranges.code, outside)),
        process_ids(owner),
        thread_ids(owner),
        np.concatenate((ranges.style, outside)),
    )


def _distinct(codes: NDArray[Any], numbers: NDArray[Any], groups: int) -> NDArray[Any]:
    width = int(numbers.max(initial=0)) + 1
    pairs = codes * width + numbers
    pairs.sort()
    return np.bincount(pairs[np.diff(pairs, prepend=-1) > 0] // width, minlength=groups)


SCHEMA = Schema(
    "nvtx_kern_sum",
    "NVTX Range Kernel Summary",
    Column("range", "NVTX Range", "domain and name of the range; empty: outside of all ranges"),
    Column("style", "Style", "PushPop or StartEnd", 2),
    Column("process_id", "PID", "process that launched", 3),
    Column("thread_id", "TID", "thread that launched", 4),
    Column.count("range_instances", "NVTX Inst", "ranges of this name around these launches"),
    Column.count("kernel_instances", "Kern Inst", "executions of this kernel"),
    TOTAL_TIME,
    *stat_columns(),
    Column("kernel_name", "Kernel Name", "kernel name (demangled, base or mangled)", kernels=True),
)

REPORT = Report(
    SCHEMA,
    needs=(("nvtx",), ("kernel",), ("api",)),
    compute=compute,
    rows_from=("kernel",),
    reads={"nvtx": READS["nvtx"], "kernel": (*READS["kernel"], "name"), "api": READS["api"]},
    qualifiers=("base", "mangled"),
)
