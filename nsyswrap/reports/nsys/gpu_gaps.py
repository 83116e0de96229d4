"""Gaps: times without any operation of a process on a device, between its first and its last one.

A gap of more than ``gap`` ms means that the GPU waits for the host. See what the host did in that time (NVTX
ranges, OS runtime calls, synchronization), and launch earlier.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.usage import WORK_KINDS, DeviceWork, device_work, graph_notes
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import gaps
from nsyswrap.reports.expert_rules import LONGEST, ROWS, device_columns, limited, take
from nsyswrap.reports.table import Column, Report, ReportOption, Result, Schema

NS_PER_MS = 10**6
FIELDS = ("duration_ns", "start_ns", "process_id", "device_id", "context_id")


def compute(capture: Capture, rows: int, gap: int) -> Result:
    """Return one row per gap, the longest first."""
    by_device = [_gaps(work, gap * NS_PER_MS) for work in device_work(capture)]
    columns = np.concatenate([np.empty((len(FIELDS), 0), np.int64), *by_device], axis=1)
    data = dict(zip(FIELDS, columns, strict=True))
    order = np.lexsort((data["start_ns"], -data["duration_ns"]))
    longest, left_out = limited(take(data, order), rows, LONGEST)
    numbers = np.arange(1, len(longest["start_ns"]) + 1)
    return Result({"row": numbers, **longest}, (*graph_notes(capture), *left_out))


def _gaps(work: DeviceWork, longer_than_ns: int) -> NDArray[Any]:
    """Return FIELDS of the gaps in order of time: a row per field, a column per gap."""
    before, after = gaps(work.start_ns, work.end_ns)
    start = work.end_ns[before]
    duration = work.start_ns[after] - start
    process, device = (np.full_like(start, number) for number in (work.process_id, work.device_id))
    return np.stack((duration, start, process, device, work.context_id[before]))[:, duration > longer_than_ns]


SCHEMA = Schema(
    "gpu_gaps",
    "GPU Gaps",
    Column.count("row", "Row#", "number of the gap, by its duration"),
    Column("duration_ns", "Duration", "time without any operation"),
    Column("start_ns", "Start", "end of the operation before it"),
    *device_columns("before it"),
)

REPORT = Report(
    SCHEMA,
    needs=(WORK_KINDS,),
    compute=compute,
    options=(ROWS, ReportOption("gap", 500, "list only what is longer than this many ms", least=0)),
)
