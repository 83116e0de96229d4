"""Memory operations by time: copies by direction, and memsets."""

from __future__ import annotations

from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS
from nsyswrap.reports.summaries import MEMORY, memory_notes, memory_operations, time_summary
from nsyswrap.reports.table import BY_TOTAL, Column, Report, Result, Schema, time_columns


def compute(capture: Capture) -> Result:
    """Return one row per kind of operation."""
    return Result(time_summary(memory_operations(capture), "count", "operation"), memory_notes(capture))


SCHEMA = Schema(
    "cuda_gpu_mem_time_sum",
    "CUDA GPU MemOps Summary (by Time)",
    *time_columns(
        Column("count", "Count", "number of operations"),
        Column("operation", "Operation", "direction of the copy, or memset"),
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(MEMORY,),
    compute=compute,
    order=BY_TOTAL,
    reads={"memcpy": (*SPANS, "copy_kind"), "memset": SPANS},
    packs=MEMORY,
)
