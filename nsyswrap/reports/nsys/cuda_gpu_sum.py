"""GPU summary: kernels and memory operations in one list, by GPU time."""

from __future__ import annotations

from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED, SPANS
from nsyswrap.reports.summaries import gpu_operations, memory_notes, pooled, time_summary
from nsyswrap.reports.table import BY_TOTAL, KERNEL_NAMES, Column, Report, Result, Schema, time_columns


def compute(capture: Capture) -> Result:
    """Return one row per kernel name or kind of memory operation."""
    rows, categories = pooled(gpu_operations(capture))
    return Result(
        {**time_summary(rows, "instances", "operation"), "category": categories}, memory_notes(capture)
    )


SCHEMA = Schema(
    "cuda_gpu_sum",
    "CUDA GPU Summary (Kernels/MemOps)",
    *time_columns(
        Column.count("instances", "Instances", "number of executions"),
        Column("category", "Category", "CUDA_KERNEL or MEMORY_OPER", 6),
        Column("operation", "Operation", "kernel name, direction of the copy, or memset", kernels=True),
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel", "memcpy", "memset"),),
    compute=compute,
    order=BY_TOTAL,
    qualifiers=KERNEL_NAMES,
    reads={"kernel": NAMED, "memcpy": (*SPANS, "copy_kind"), "memset": SPANS},
)
