"""NVTX push/pop range trace: every push/pop range with its parent, its children and its place on the stack.

Of two ranges of one thread with the same times, each is the parent of the other. nsys lists neither these nor
the ranges inside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.spans import SpanTree, paths, tree
from nsyswrap.analysis.nvtx_ranges import READS, Ranges, nested_ranges
from nsyswrap.base.constants import MISSING
from nsyswrap.base.text import counted
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NVTX_PUSH_POP
from nsyswrap.capture.selection import process_ids, thread_ids
from nsyswrap.reports.table import Column, Report, Result, Schema

TAB = "--"  # per level, in the name tree


def compute(capture: Capture) -> Result:
    """Return one row per range, by start and duration."""
    ranges = nested_ranges(capture, NVTX_PUSH_POP)
    nesting = tree(ranges.spans)
    numbers = _numbers(ranges, nesting)
    listed = np.flatnonzero(nesting.depth != MISSING)
    # Of equal ranges nsys 2025 lists the first in the table first, older ones the outermost.
    ties = (ranges.row,) if capture.view.rounding == "2025" else (nesting.top, nesting.depth)
    keys = (*ties, numbers["duration_ns"], numbers["start_ns"])
    listed = listed[np.lexsort(tuple(key[listed] for key in keys))]
    names, stacks = ranges.labels(ranges.code[listed]), paths(nesting, ranges.row)
    levels = nesting.depth[listed].tolist()
    return Result(
        {
            **{column: values[listed] for column, values in numbers.items()},
            "name": names,
            "range_stack": [stacks[i] for i in listed.tolist()],
            "name_tree": [
                None if name is None else TAB * level + name
                for name, level in zip(names, levels, strict=True)
            ],
        },
        (*ranges.notes, *_left_out_notes(nesting)),
    )


def _numbers(ranges: Ranges, nesting: SpanTree) -> dict[str, NDArray[Any]]:
    thread, start, end = ranges.spans
    duration = np.where(end == MISSING, MISSING, end - start)
    child = np.flatnonzero(nesting.parent >= 0)
    child_ns = np.zeros_like(start)
    np.add.at(child_ns, nesting.parent[child], duration[child])
    return {
        "start_ns": start,
        "end_ns": end,
        "duration_ns": duration,
        "child_ns": child_ns,
        "own_ns": np.where(end == MISSING, MISSING, duration - child_ns),
        "process_id": process_ids(thread),
        "thread_id": thread_ids(thread),
        "level": nesting.depth,
        "children": np.bincount(nesting.parent[child], minlength=len(start)),
        "range_id": ranges.row,
        "parent_id": np.append(ranges.row, MISSING)[nesting.parent],
    }


def _left_out_notes(nesting: SpanTree) -> tuple[str, ...]:
    left_out = int((nesting.depth == MISSING).sum())
    text = (
        f"{counted(left_out, 'ranges')} omitted, as in nsys: of equal thread and times, or inside such ranges"
    )
    return (text,) if left_out else ()


SCHEMA = Schema(
    "nvtx_pushpop_trace",
    "NVTX Push/Pop Range Trace",
    Column("start_ns", "Start", "start of the range"),
    Column("end_ns", "End", "end of the range", 5),
    Column("duration_ns", "Duration", "how long it lasted"),
    Column("child_ns", "DurChild", "sum over its children", 4),
    Column("own_ns", "DurNonChild", "its duration without that of its children"),
    Column("name", "Name", "domain and name of the range", 3),
    Column("process_id", "PID", "process that pushed it", 6),
    Column("thread_id", "TID", "thread that pushed it", 2),
    Column.number("level", "Lvl", "ranges around it on its thread", 8),
    Column.count("children", "NumChild", "ranges right below it", 7),
    Column("range_id", "RangeId", "row of the range in NVTX_EVENTS", 9),
    Column("parent_id", "ParentId", "RangeId of the range around it", 10),
    Column("range_stack", "RangeStack", "RangeIds from the outermost range to this", 11),
    Column("name_tree", "NameTree", "its name, with two dashes per level"),
)

REPORT = Report(SCHEMA, needs=(("nvtx",),), compute=compute, reads={"nvtx": READS["nvtx"]})
