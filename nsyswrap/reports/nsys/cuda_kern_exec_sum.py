"""Launch summary: launch call, wait and execution, by process, thread, device, API function and kernel.

API is the launch call. Queue is the wait from the return of the call to the start of the kernel, missing if
the kernel started earlier. Kernel is the execution. Total lasts from the start of the call to the later of
both ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.arrays.groups import GroupBy
from nsyswrap.analysis.correlation import process_notes
from nsyswrap.analysis.execution_phases import phases_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED
from nsyswrap.capture.stream import in_blocks, narrow
from nsyswrap.reports.table import (
    KERNEL_NAMES,
    Column,
    Order,
    Report,
    Result,
    Schema,
    stat_columns,
    stat_values,
)

PHASES = (
    ("total_", "T", "the totals"),
    ("api_", "A", "the launch calls"),
    ("queue_", "Q", "the queue times"),
    ("kernel_", "K", "the kernels"),
)


def compute(capture: Capture) -> Result:
    """Return one row per (process, thread, device, API function, kernel name)."""
    phases = phases_of(capture)
    groups = GroupBy(phases.codes, len(phases.keys["device_id"]))
    parts = {"api": phases.api_ns, "queue": phases.queue_ns, "kernel": phases.kernel_ns}
    total = groups.of(in_blocks(parts, _total)["total"])
    waits = groups.of(phases.queue_ns, least=0)
    data = {
        "count": total.count,
        "queue_count": waits.count,
        **stat_values(total, "total_"),
        **stat_values(groups.of(phases.api_ns), "api_"),
        **stat_values(waits, "queue_"),
        **stat_values(groups.of(phases.kernel_ns), "kernel_"),
    }
    names = {field: TextColumn(phases.keys[field], texts) for field, texts in phases.names.items()}
    return Result({**phases.keys, **names, **data}, process_notes(capture, "kernel") if phases.noted else ())


def _total(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the time from the call's start to the later of both ends: the queue can be below 0."""
    behind = np.add(columns["queue"], columns["kernel"], dtype=np.int64)
    return {"total": narrow(np.maximum(behind, 0) + columns["api"])}


SCHEMA = Schema(
    "cuda_kern_exec_sum",
    "CUDA Kernel Launch & Exec Time Summary",
    Column("process_id", "PID", "process that launched"),
    Column("thread_id", "TID", "thread that launched", 4),
    Column("device_id", "DevId", "device the kernel ran on", 3),
    Column("count", "Count", "number of executions"),
    Column("queue_count", "QCount", "executions that began after their call returned", 1),
    *(column for prefix, header, of in PHASES for column in stat_columns(prefix, header, of=of)),
    Column("api_name", "API Name", "API function that launched"),
    Column("kernel_name", "Kernel Name", "kernel name", kernels=True),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel",), ("api",)),
    compute=compute,
    order=(Order("total_avg_ns", descending=True, rounded=True),),
    qualifiers=KERNEL_NAMES,
    reads={
        "kernel": (*NAMED, "device_id", "correlation_id", "global_pid"),
        "api": (*NAMED, "global_tid", "correlation_id"),
    },
    packs=("kernel", "api"),
)
