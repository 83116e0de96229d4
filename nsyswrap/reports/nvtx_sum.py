"""NVTX range summary: CPU time in ranges, by name and style."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys, grouped
from nsyswrap.analysis.nvtx_ranges import ALL, STYLES, counted_ranges
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import Unit
from nsyswrap.columns import TIME_PERCENT, TOTAL_TIME, share, stat_columns, stat_values
from nsyswrap.report import Column, Order, Report

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture
    from nsyswrap.report import Values

RANGE = Column("range", "Range", Unit.TEXT, "domain and name of the range")
STYLE = Column("style", "Style", Unit.TEXT, "PushPop: nested on one thread; StartEnd: free")
TIMES = (
    TIME_PERCENT,
    TOTAL_TIME,
    Column("instances", "Instances", Unit.COUNT, "number of ranges of this name"),
    *stat_columns(),
)


def compute(capture: Capture) -> dict[str, Values]:
    """Return one row per name and style."""
    return by_name(capture, ALL)


def by_name(capture: Capture, types: tuple[int, ...]) -> dict[str, Values]:
    """Return the times of the ranges of some event types, by name and style."""
    ranges = counted_ranges(capture, types)
    codes, (name, style) = group_keys(ranges.code, ranges.style)
    ended = ranges.spans.end != MISSING
    durations = (ranges.spans.end - ranges.spans.start)[ended]
    stats = grouped(codes[ended], durations, len(name))
    return {
        "time_percent": share(stats.total),
        "total_ns": np.where(stats.count == 0, MISSING, stats.total),
        "instances": np.bincount(codes, minlength=len(name)),
        **stat_values(stats),
        "style": [STYLES[i] for i in style.tolist()],
        "range": ranges.labels(name),
    }


REPORT = Report(
    name="nvtx_sum",
    title="NVTX Range Summary",
    layer="parity",
    needs=(("nvtx",),),
    columns=(*TIMES, STYLE, RANGE),
    compute=compute,
    order=(Order("total_ns", descending=True),),
)
