"""Launch summary: per process, thread, device, API function and kernel, the phases of an execution.

API is the launch call, queue the wait from the call's return to the kernel's start (missing where the
kernel started earlier), kernel the execution, total the span from the call to the later of both ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import Groups, distinct, group_keys, grouped
from nsyswrap.analysis.correlation import launch_pairs_of, process_notes
from nsyswrap.analysis.names import name_codes
from nsyswrap.base.units import Unit
from nsyswrap.capture.global_ids import process_ids, thread_ids
from nsyswrap.capture.schema import NAMED, SPANS
from nsyswrap.reports.columns import KERNEL_NAMES, stat_columns, stat_values
from nsyswrap.reports.table import Column, Order, Report, Result, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.correlation import LaunchPairs
    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.table import Values

PHASES = (
    ("total_", "T", "the totals"),
    ("api_", "A", "the launch calls"),
    ("queue_", "Q", "the queue times"),
    ("kernel_", "K", "the kernels"),
)


def compute(capture: Capture) -> Result:
    """Return one row per (process, thread, device, API function, kernel name)."""
    pairs = launch_pairs_of(capture)
    codes, keys = _groups(capture, pairs)
    groups = Groups(codes, len(keys["device_id"]))
    api_start, api_end = (v[pairs.api] for v in capture.columns("api", *SPANS).values())
    start, end = (v[pairs.operation] for v in capture.columns("kernel", *SPANS).values())
    total = groups.of(np.maximum(api_end, end) - api_start)
    api = groups.of(api_end - api_start)
    kernel = groups.of(end - start)
    queue = start - api_end
    waited = queue >= 0
    waits = grouped(codes[waited], queue[waited], len(total.count))
    return Result(
        {
            **keys,
            "count": total.count,
            "queue_count": waits.count,
            **stat_values(total, "total_"),
            **stat_values(api, "api_"),
            **stat_values(waits, "queue_"),
            **stat_values(kernel, "kernel_"),
        },
        process_notes(capture, "kernel"),
    )


def _groups(capture: Capture, pairs: LaunchPairs) -> tuple[NDArray[Any], dict[str, Values]]:
    """Return a group code per pair, and the key columns of the groups."""
    device = capture.columns("kernel", "device_id")["device_id"]
    threads, thread_codes = distinct(capture.columns("api", "global_tid")["global_tid"])
    numbers, (processes, tids) = group_keys(process_ids(threads), thread_ids(threads))
    kernel_codes, kernel_names = name_codes(capture, "kernel")
    api_codes, api_names = name_codes(capture, "api")
    codes, (thread, device_id, api, kernel) = group_keys(
        numbers[thread_codes][pairs.api],
        device[pairs.operation],
        api_codes[pairs.api],
        kernel_codes[pairs.operation],
    )
    return codes, {
        "process_id": processes[thread],
        "thread_id": tids[thread],
        "device_id": device_id,
        "api_name": [api_names[code] for code in api],
        "kernel_name": [kernel_names[code] for code in kernel],
    }


SCHEMA = Schema(
    name="cuda_kern_exec_sum",
    title="CUDA Kernel Launch & Exec Time Summary",
    columns=(
        Column("process_id", "PID", Unit.ID, "process that launched"),
        Column("thread_id", "TID", Unit.ID, "thread that launched", drop_order=4),
        Column("device_id", "DevId", Unit.ID, "device the kernel ran on", drop_order=3),
        Column("count", "Count", Unit.COUNT, "number of executions"),
        Column(
            "queue_count",
            "QCount",
            Unit.COUNT,
            "executions that began after their call returned",
            drop_order=1,
        ),
        *(column for prefix, header, of in PHASES for column in stat_columns(prefix, header, of=of)),
        Column("api_name", "API Name", Unit.TEXT, "API function that launched"),
        Column("kernel_name", "Kernel Name", Unit.TEXT, "kernel name", kernels=True),
    ),
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
)
