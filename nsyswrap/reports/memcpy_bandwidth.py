"""Copies by direction: how many, how much, how long, and the bandwidth that makes.

Bandwidth is the sum of the bytes over the sum of the durations, in bytes/s (10^9 is a GB): nsys' own
throughput column divides integers and comes out low. Unified-memory migrations stand in rows of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.operations import memory_operations
from nsyswrap.report import TOTAL_TIME, Column, Order, Report
from nsyswrap.stats import grouped
from nsyswrap.units import Unit

if TYPE_CHECKING:
    from nsyswrap.capture import Capture
    from nsyswrap.report import Values


def compute(capture: Capture) -> dict[str, Values]:
    """Return one row per kind of copy, and one for memsets."""
    times = memory_operations(capture)
    sizes = memory_operations(capture, "bytes")
    groups = len(times.labels)
    time, size = grouped(times.codes, times.values, groups), grouped(sizes.codes, sizes.values, groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        bandwidth = np.where(time.total > 0, size.total * 1e9 / time.total, np.nan)
    return {
        "operation": times.labels,
        "count": time.count,
        "total_bytes": size.total,
        "total_ns": time.total,
        "med_bytes": size.med,
        "med_ns": time.med,
        "bandwidth_bytes_per_s": bandwidth,
    }


REPORT = Report(
    name="memcpy_bandwidth",
    title="Copies by direction",
    layer="analysis",
    needs=(("memcpy", "memset"),),
    columns=(
        Column("operation", "Operation", Unit.TEXT, "direction of the copy, or memset"),
        Column("count", "Count", Unit.COUNT, "number of operations"),
        Column("total_bytes", "Size", Unit.BYTES, "sum of the bytes"),
        TOTAL_TIME,
        Column("med_bytes", "Med Size", Unit.BYTES, "median size of one operation", detail=2),
        Column("med_ns", "Med Time", Unit.NS, "median duration of one operation", detail=2),
        Column(
            "bandwidth_bytes_per_s",
            "Bandwidth",
            Unit.BYTES_PER_S,
            "sum of bytes / sum of durations; 1 GB is 10^9",
        ),
    ),
    compute=compute,
    order=(Order("total_ns", descending=True),),
)
