"""Kernel summary: GPU time by kernel name, all devices, processes and graph nodes together."""

from __future__ import annotations

from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED
from nsyswrap.reports.summaries import kernels, time_summary
from nsyswrap.reports.table import KERNEL_NAMES, Column, Order, Report, Result, Schema, time_columns


def compute(capture: Capture) -> Result:
    """Return one row per kernel name."""
    return Result(time_summary(kernels(capture), "instances", "name"))


SCHEMA = Schema(
    "cuda_gpu_kern_sum",
    "CUDA GPU Kernel Summary",
    *time_columns(
        Column.count("instances", "Instances", "number of executions, graph nodes included"),
        Column("name", "Name", "kernel name (demangled, base or mangled)", kernels=True),
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel",),),
    compute=compute,
    order=(Order("total_ns", descending=True), Order("instances")),
    qualifiers=KERNEL_NAMES,
    reads={"kernel": NAMED},
    packs=("kernel",),
)
