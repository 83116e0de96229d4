"""Launch trace: every kernel with its launch call, the wait between them, and the total of both.

A kernel whose call has two rows (runtime and driver) is listed twice. A kernel without a call is not listed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.correlation import launch_pairs_of, process_notes
from nsyswrap.analysis.names import event_names, shapes
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED
from nsyswrap.capture.selection import process_ids, thread_ids
from nsyswrap.reports.table import KERNEL_NAMES, Column, Order, Report, Result, Schema

_SHAPES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def compute(capture: Capture) -> Result:
    """Return one row per kernel and call."""
    kernels, calls = _pairs(capture)
    kernel = {n: v[kernels] for n, v in capture.columns("kernel", "start_ns", "end_ns", "device_id").items()}
    api = {n: v[calls] for n, v in capture.columns("api", "start_ns", "end_ns", "global_tid").items()}
    queue = kernel["start_ns"] - api["end_ns"]
    (grid_of, grids), (block_of, blocks) = shapes(capture, "grid"), shapes(capture, "block")
    return Result(
        {
            "api_start_ns": api["start_ns"],
            "api_ns": api["end_ns"] - api["start_ns"],
            "queue_start_ns": np.where(queue >= 0, api["end_ns"], MISSING),
            "queue_ns": np.where(queue >= 0, queue, MISSING),
            "kernel_start_ns": kernel["start_ns"],
            "kernel_ns": kernel["end_ns"] - kernel["start_ns"],
            "total_ns": np.maximum(api["end_ns"], kernel["end_ns"]) - api["start_ns"],
            "process_id": process_ids(api["global_tid"]),
            "thread_id": thread_ids(api["global_tid"]),
            "device_id": kernel["device_id"],
            "api_name": event_names(capture, "api")[calls],
            "grid_xyz": TextColumn(grid_of[kernels], grids),
            "block_xyz": TextColumn(block_of[kernels], blocks),
            "kernel_name": event_names(capture, "kernel")[kernels],
        },
        process_notes(capture, "kernel"),
    )


def _pairs(capture: Capture) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows of kernels and of their calls, in the kernels' order.

    Several calls of one kernel have nsys' order: by their ends, with NVTX names by rows.
    """
    pairs = launch_pairs_of(capture)
    if capture.view.nvtx_names or (np.diff(pairs.operation) > 0).all():
        return pairs.operation, pairs.api
    api = capture.columns("api", "end_ns", "global_tid", "name")
    keys = [api[field][pairs.api] for field in ("name", "global_tid", "end_ns")]
    order = np.lexsort((*keys, pairs.operation))
    return pairs.operation[order], pairs.api[order]


SCHEMA = Schema(
    "cuda_kern_exec_trace",
    "CUDA Kernel Launch & Exec Time Trace",
    Column("api_start_ns", "API Start", "when the launch call began"),
    Column("api_ns", "API Dur", "CPU time in the launch call"),
    Column("queue_start_ns", "Queue Start", "when the call returned, if before the kernel", 8),
    Column("queue_ns", "Queue Dur", "from the call's return to the kernel's start"),
    Column("kernel_start_ns", "Kernel Start", "when the kernel began", 7),
    Column("kernel_ns", "Kernel Dur", "GPU time of the kernel"),
    Column("total_ns", "Total Dur", "from the call's start to the later of both ends", 4),
    Column("process_id", "PID", "process that launched", 6),
    Column("thread_id", "TID", "thread that launched", 6),
    Column("device_id", "DevId", "device the kernel ran on", 3),
    Column("api_name", "API Function", "API function that launched"),
    Column("grid_xyz", "GridXYZ", "blocks in the grid, by dimension", 2),
    Column("block_xyz", "BlockXYZ", "threads in a block, by dimension", 2),
    Column("kernel_name", "Kernel Name", "kernel name (demangled, base or mangled)", kernels=True),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel",), ("api",)),
    compute=compute,
    order=(Order("api_start_ns"),),
    qualifiers=KERNEL_NAMES,
    reads={
        "kernel": (*NAMED, "device_id", "correlation_id", "global_pid", *_SHAPES),
        "api": (*NAMED, "global_tid", "correlation_id"),
    },
)
