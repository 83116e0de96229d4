"""Launch summary: per process, thread, device, API function and kernel, the phases of an execution.

API is the launch call, queue the wait from the call's return to the kernel's start (missing where the
kernel started earlier), kernel the execution, total the span from the call to the later of both ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.join import launches
from nsyswrap.operations import name_codes, process_ids, thread_ids
from nsyswrap.report import KERNEL_NAMES, NAMED, Column, Order, Report, stat_columns, stat_values
from nsyswrap.stats import Groups, distinct, group_keys, grouped
from nsyswrap.units import Unit

if TYPE_CHECKING:
    from nsyswrap.capture import Capture
    from nsyswrap.report import Values

PHASES = (("total_", "T"), ("api_", "A"), ("queue_", "Q"), ("kernel_", "K"))


def compute(capture: Capture) -> dict[str, Values]:
    """Return one row per (process, thread, device, API function, kernel name)."""
    pairs = launches(capture)
    kernel = {
        n: v[pairs.operation] for n, v in capture.columns("kernel", "start_ns", "end_ns", "device_id").items()
    }
    api = {n: v[pairs.api] for n, v in capture.columns("api", "start_ns", "end_ns", "global_tid").items()}
    kernel_codes, kernel_names = name_codes(capture, "kernel")
    api_codes, api_names = name_codes(capture, "api")

    threads, thread_codes = distinct(api["global_tid"])
    numbers, (processes, tids) = group_keys(process_ids(threads), thread_ids(threads))
    codes, (thread, device, api_code, kernel_code) = group_keys(
        numbers[thread_codes], kernel["device_id"], api_codes[pairs.api], kernel_codes[pairs.operation]
    )
    queue = kernel["start_ns"] - api["end_ns"]
    waited = queue >= 0
    groups = Groups(codes, len(thread))
    total = groups.of(np.maximum(api["end_ns"], kernel["end_ns"]) - api["start_ns"])
    waits = grouped(codes[waited], queue[waited], len(thread))
    return {
        "process_id": processes[thread],
        "thread_id": tids[thread],
        "device_id": device,
        "count": total.count,
        "queue_count": waits.count,
        **stat_values(total, "total_"),
        **stat_values(groups.of(api["end_ns"] - api["start_ns"]), "api_"),
        **stat_values(waits, "queue_"),
        **stat_values(groups.of(kernel["end_ns"] - kernel["start_ns"]), "kernel_"),
        "api_name": [api_names[code] for code in api_code],
        "kernel_name": [kernel_names[code] for code in kernel_code],
    }


REPORT = Report(
    name="cuda_kern_exec_sum",
    title="CUDA Kernel Launch & Exec Time Summary",
    layer="parity",
    needs=(("kernel",), ("api",)),
    columns=(
        Column("process_id", "PID", Unit.ID, "process that launched"),
        Column("thread_id", "TID", Unit.ID, "thread that launched", detail=4),
        Column("device_id", "DevId", Unit.ID, "device the kernel ran on", detail=3),
        Column("count", "Count", Unit.COUNT, "number of executions"),
        Column(
            "queue_count",
            "QCount",
            Unit.COUNT,
            "executions that began after their call returned",
            detail=1,
        ),
        *(column for prefix, header in PHASES for column in stat_columns(prefix, header)),
        Column("api_name", "API Name", Unit.TEXT, "API function that launched"),
        Column("kernel_name", "Kernel Name", Unit.TEXT, "kernel name"),
    ),
    compute=compute,
    order=(Order("total_avg_ns", descending=True, rounded=True),),
    qualifiers=KERNEL_NAMES,
    reads={
        "kernel": (*NAMED, "device_id", "correlation_id", "global_pid"),
        "api": (*NAMED, "global_tid", "correlation_id"),
    },
)
