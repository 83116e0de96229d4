"""Memory operations by size: copies by direction, and memsets. 1 MB is 10^6 bytes."""

from __future__ import annotations

from nsyswrap.analysis.arrays.groups import grouped
from nsyswrap.base.units import Unit
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.summaries import MEMORY, memory_notes, memory_operations
from nsyswrap.reports.table import Column, Order, Report, Result, Schema, stat_columns, stat_values


def compute(capture: Capture) -> Result:
    """Return one row per kind of operation."""
    rows = memory_operations(capture, "bytes")
    stats = grouped(rows.codes, rows.values, len(rows.labels))
    return Result(
        {
            "total_bytes": stats.total,
            "count": stats.count,
            **stat_values(stats, unit=Unit.BYTES),
            "operation": rows.labels,
        },
        memory_notes(capture),
    )


SCHEMA = Schema(
    "cuda_gpu_mem_size_sum",
    "CUDA GPU MemOps Summary (by Size)",
    Column("total_bytes", "Total", "sum of the bytes"),
    Column("count", "Count", "number of operations"),
    *stat_columns(unit=Unit.BYTES, of="the sizes"),
    Column("operation", "Operation", "direction of the copy, or memset"),
)

REPORT = Report(
    SCHEMA,
    needs=(MEMORY,),
    compute=compute,
    order=(Order("total_bytes", descending=True),),
    reads={"memcpy": ("bytes", "copy_kind"), "memset": ("bytes",)},
    packs=MEMORY,
)
