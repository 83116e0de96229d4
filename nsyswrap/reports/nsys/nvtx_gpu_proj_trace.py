"""NVTX GPU projection trace: every range that launched GPU work, and when that work ran."""

from __future__ import annotations

import numpy as np

from nsyswrap.analysis.arrays.spans import paths
from nsyswrap.analysis.correlation import process_notes
from nsyswrap.analysis.nvtx_ranges import OPERATIONS, READS, STYLES, projections
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import process_ids, thread_ids
from nsyswrap.reports.table import Column, Report, Result, Schema


def compute(capture: Capture) -> Result:
    """Return one row per range, in the order of NVTX_EVENTS."""
    projection = projections(capture)
    ranges, which = projection.ranges, projection.which
    thread, start, end = (values[which] for values in ranges.spans)
    level, parent = projection.nesting.depth[which], projection.nesting.parent[which]
    stacks = paths(projection.nesting, ranges.row)
    return Result(
        {
            "name": ranges.labels(ranges.code[which]),
            "proj_start_ns": projection.start,
            "proj_ns": projection.end - projection.start,
            "range_start_ns": start,
            "range_ns": end - start,
            "style": [STYLES[i] for i in ranges.style[which].tolist()],
            "process_id": process_ids(thread),
            "thread_id": thread_ids(thread),
            "operations": projection.operations,
            "level": level,
            "children": projection.children,
            "range_id": ranges.row[which],
            "parent_id": np.where(level == MISSING, MISSING, np.append(ranges.row, MISSING)[parent]),
            "range_stack": [stacks[i] for i in which.tolist()],
        },
        (*ranges.notes, *process_notes(capture, *OPERATIONS)),
    )


SCHEMA = Schema(
    "nvtx_gpu_proj_trace",
    "NVTX GPU Projection Trace",
    Column("name", "Name", "domain and name of the range"),
    Column("proj_start_ns", "Projected Start", "start of the first operation launched inside"),
    Column("proj_ns", "Projected Duration", "from there to the end of the last operation, with all gaps"),
    Column("range_start_ns", "Orig Start", "start of the range on the CPU", 4),
    Column("range_ns", "Orig Duration", "duration of the range on the CPU"),
    Column("style", "Style", "PushPop or StartEnd", 5),
    Column("process_id", "PID", "process the range is of", 6),
    Column("thread_id", "TID", "thread the range is of", 3),
    Column.count(
        "operations", "NumGPUOps", "correlation ids of the operations launched inside: a graph launch is one"
    ),
    Column.number("level", "Lvl", "ranges around it on its thread, of both styles", 7),
    Column.count("children", "NumChild", "ranges right below it that launched something too", 8),
    Column("range_id", "RangeId", "row of the range in NVTX_EVENTS", 9),
    Column("parent_id", "ParentId", "RangeId of the range around it", 10),
    Column("range_stack", "RangeStack", "RangeIds from the outermost range to this", 11),
)

REPORT = Report(SCHEMA, needs=(("nvtx",), ("api",), OPERATIONS), compute=compute, reads=READS)
