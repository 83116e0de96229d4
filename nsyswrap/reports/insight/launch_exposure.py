"""GPU idle time that launch calls cause, by stream.

Exposed is the GPU idle time of a process on a device during the launch of the next operation, from the start
of the call to the start on the GPU. It includes profiler overhead. Launches during GPU work expose nothing,
however long they take. The first launch of a kernel can load it, and counts in a separate column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import GroupBy, group_keys
from nsyswrap.analysis.gpu_gaps import Gaps, gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of, operation_notes
from nsyswrap.analysis.launch_bound import ended_by
from nsyswrap.analysis.launches import READS, launches_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import process_ids
from nsyswrap.reports.table import Column, Order, Report, Result, Schema


def compute(capture: Capture) -> Result:
    """Return one row per process, device and stream with launches."""
    launches, gaps = launches_of(capture), gaps_of(capture)
    operations = gpu_operations_of(capture.whole).of(launches.operation)
    codes, (process, device, stream) = group_keys(
        operations.global_pid, operations.device_id, operations.stream_id
    )
    ended = ended_by(launches, gaps)

    def sums(ns: NDArray[Any], which: NDArray[Any]) -> NDArray[Any]:
        rows = np.flatnonzero(np.append(which, False)[ended])  # -1 selects the appended False
        return GroupBy(codes[ended[rows]], len(stream)).totals(ns[rows])

    exposed, total = sums(gaps.launching_ns, ~launches.first), _idle_times(gaps, process, device)
    return Result(
        {
            "process_id": process_ids(process),
            "device_id": device,
            "stream_id": stream,
            "launches": np.bincount(codes, minlength=len(stream)),
            "first_launches": np.bincount(codes[launches.first], minlength=len(stream)),
            "idle_ns": total,
            "exposed_ns": exposed,
            "exposed_percent": exposed * 100 / np.where(total == 0, np.nan, total),
            "host_ns": sums(gaps.parts["host"], ~launches.first),
            "first_exposed_ns": sums(gaps.launching_ns, launches.first),
        },
        operation_notes(capture),
    )


def _idle_times(gaps: Gaps, process: NDArray[Any], device: NDArray[Any]) -> NDArray[Any]:
    """Return the idle time of each pair of process and device, in ns."""
    codes, keys = group_keys(gaps.global_pid, gaps.device_id)
    total = GroupBy(codes, len(keys[0])).totals(gaps.duration_ns).tolist()
    known = dict(zip(zip(*(key.tolist() for key in keys), strict=True), total, strict=True))
    pairs = zip(process.tolist(), device.tolist(), strict=True)
    return np.array([known.get(pair, 0) for pair in pairs], np.int64)


SCHEMA = Schema(
    "launch_exposure",
    "GPU idle time due to launches, by stream",
    Column("process_id", "PID", "process that launched", 2),
    Column("device_id", "Device", "device it launched on"),
    Column("stream_id", "Stream", "stream it launched into"),
    Column.count("launches", "Launches", "calls that launched a kernel or a graph"),
    Column.count("first_launches", "First Launches", "of these, first launches of a kernel or graph"),
    Column(
        "idle_ns",
        "Idle",
        "time without an operation of this process on the device; from its first to its last one, or in "
        "the selected time",
    ),
    Column("exposed_ns", "Exposed", "part of the idle time inside repeat launches into this stream"),
    Column("exposed_percent", "Exposed", "the same as a share of the device's idle time"),
    Column("host_ns", "Host Code", "idle time before repeat launches with the host outside CUDA calls"),
    Column("first_exposed_ns", "First Exposed", "idle time inside first launches", 1),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel", "graph"), ("api",)),
    compute=compute,
    order=(Order("exposed_ns", descending=True),),
    reads=READS,
)
