"""CUDA summary: API calls, kernels and memory operations in one list, CPU and GPU times side by side."""

from __future__ import annotations

from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED, SPANS
from nsyswrap.reports.summaries import api_calls, gpu_operations, memory_notes, pooled, time_summary
from nsyswrap.reports.table import BY_TOTAL, KERNEL_NAMES, Column, Report, Result, Schema, time_columns


def compute(capture: Capture) -> Result:
    """Return one row per API function, kernel name or kind of memory operation."""
    calls = [("CUDA_API", api_calls(capture))] if capture.has("api") else []
    rows, categories = pooled([*calls, *gpu_operations(capture)])
    return Result(
        {**time_summary(rows, "instances", "operation"), "category": categories}, memory_notes(capture)
    )


SCHEMA = Schema(
    "cuda_api_gpu_sum",
    "CUDA Summary (API/Kernels/MemOps)",
    *time_columns(
        Column.count("instances", "Instances", "number of calls or executions"),
        Column("category", "Category", "CUDA_API, CUDA_KERNEL or MEMORY_OPER", 6),
        Column(
            "operation", "Operation", "API function, kernel, direction of the copy, or memset", kernels=True
        ),
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(("api", "kernel", "memcpy", "memset"),),
    compute=compute,
    order=BY_TOTAL,
    qualifiers=KERNEL_NAMES,
    reads={"api": NAMED, "kernel": NAMED, "memcpy": (*SPANS, "copy_kind"), "memset": SPANS},
)
