"""NVTX GPU projection summary: time of the GPU work launched in ranges, by range name.

The time includes gaps between operations. The time of a nested range counts in each range around it.
"""

from __future__ import annotations

from nsyswrap.analysis.arrays.groups import GroupBy, group_keys, grouped
from nsyswrap.analysis.correlation import process_notes
from nsyswrap.analysis.nvtx_ranges import OPERATIONS, READS, STYLES, projections
from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import Unit
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.table import Column, Order, Report, Result, Schema, stat_columns, stat_values


def compute(capture: Capture) -> Result:
    """Return one row per range name and style."""
    projection = projections(capture)
    ranges, which = projection.ranges, projection.which
    codes, (name, style) = group_keys(ranges.code[which], ranges.style[which])
    groups = len(name)
    projected = grouped(codes, projection.end - projection.start, groups)
    lasted = (ranges.spans.end - ranges.spans.start)[which]
    operations = grouped(codes, projection.operations, groups)
    level = projection.nesting.depth[which]
    rooted = level != MISSING
    return Result(
        {
            "range": ranges.labels(name),
            "style": [STYLES[i] for i in style.tolist()],
            "proj_total_ns": projected.total,
            "range_total_ns": GroupBy(codes, groups).totals(lasted),
            "instances": projected.count,
            **stat_values(projected, "proj_"),
            "operations": operations.total,
            "operations_avg": operations.avg,
            "level_avg": grouped(codes[rooted], level[rooted], groups).avg,
            "children_avg": grouped(codes, projection.children, groups).avg,
        },
        (*ranges.notes, *process_notes(capture, *OPERATIONS)),
    )


SCHEMA = Schema(
    "nvtx_gpu_proj_sum",
    "NVTX GPU Projection Summary",
    Column("range", "Range", "domain and name of the range"),
    Column("style", "Style", "PushPop or StartEnd", 2),
    Column(
        "proj_total_ns",
        "Total Proj Time",
        "sum of the projections: each from the first operation's start to the last one's end",
    ),
    Column("range_total_ns", "Total Range Time", "sum of the ranges' durations on the CPU"),
    Column.count("instances", "Range Instances", "ranges of this name that launched something"),
    *stat_columns("proj_", "Proj ", of="the projected durations"),
    Column.count("operations", "Total GPU Ops", "operations launched inside; a graph launch is one"),
    Column("operations_avg", "Avg GPU Ops", "operations per range", 6, unit=Unit.RATIO),
    Column("level_avg", "Avg Range Lvl", "ranges around it on its thread (mean)", 10, unit=Unit.RATIO),
    Column(
        "children_avg",
        "Avg Num Child",
        "ranges right below it that launched something too (mean)",
        11,
        unit=Unit.RATIO,
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(("nvtx",), ("api",), OPERATIONS),
    compute=compute,
    order=(Order("proj_total_ns", descending=True),),
    reads=READS,
)
