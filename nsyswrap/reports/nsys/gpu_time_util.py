"""Times in which a device was little used, between its first operation and its last.

For each process the time of a device is cut into ``chunks`` of equal length. Chunks in use for less than
``threshold`` percent are listed; neighbors are joined. In use counts time, not how much of the GPU an
operation fills. Operations that overlap add up, to more than 100 % too. See what the host did in that time,
and launch earlier, or more at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.usage import WORK_KINDS, DeviceWork, device_work, graph_notes
from nsyswrap.base.units import Rounding, round_tenth
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import overlap
from nsyswrap.reports.expert_rules import ROWS, device_columns, limited, take
from nsyswrap.reports.table import Column, Report, ReportOption, Result, Schema


class Stretch(NamedTuple):
    """Neighboring chunks that are hardly used. nsys lists them in the order of the first three fields."""

    used_before: int  # chunks of this device and process
    device_id: int
    process_id: int
    context_id: int
    start_ns: int
    duration_ns: int
    in_use_percent: float


def compute(capture: Capture, rows: int, threshold: int, chunks: int) -> Result:
    """Return one row per stretch, the least used first."""
    rounding = capture.view.rounding
    stretches = sorted(
        stretch for work in device_work(capture) for stretch in _stretches(work, threshold, chunks, rounding)
    )
    columns = zip(*stretches, strict=True) if stretches else ((),) * len(Stretch._fields)
    data = dict(zip(Stretch._fields, map(np.array, columns), strict=True))
    first, left_out = limited(data, rows, "the first and not the least used, as in nsys")
    in_use = np.array(
        [round_tenth(percent, rounding) for percent in np.asarray(first["in_use_percent"]).tolist()]
    )
    order = np.lexsort((first["duration_ns"], in_use))
    numbers = np.arange(1, len(order) + 1)
    return Result({"row": numbers, **take(first, order)}, (*graph_notes(capture), *left_out))


def _stretches(work: DeviceWork, threshold: int, chunks: int, rounding: Rounding) -> Iterator[Stretch]:
    start, end = _chunks(work, chunks)
    percent = overlap(work.start_ns, work.end_ns, start, end) / (end - start) * 100
    low = np.flatnonzero(percent < threshold)
    used_before = low - np.arange(len(low))  # is the same in neighbors
    for used in np.unique(used_before).tolist():
        part = low[used_before == used]
        sizes = (end - start)[part]
        first, duration = int(start[part[0]]), int(sizes.sum())
        average = _sum(sizes * percent[part], rounding) / duration
        ids = (work.device_id, work.process_id, work.last_context_id)
        yield Stretch(used, *ids, first, duration, average)


def _chunks(work: DeviceWork, chunks: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the starts and ends of the chunks. The last can be shorter, and there can be fewer."""
    first, last = work.span_ns
    size = math.ceil((last - first) / chunks)
    start = first + size * np.arange(chunks)
    start = start[start < last]
    return start, np.minimum(start + size, last)


def _sum(values: NDArray[Any], rounding: Rounding) -> float:
    """Return the sum as that era's SQLite computes it: exact from 3.43 on, before that one by one."""
    return math.fsum(values.tolist()) if rounding == "2025" else float(np.cumsum(values)[-1])


SCHEMA = Schema(
    "gpu_time_util",
    "GPU Time Utilization",
    Column.count("row", "Row#", "number of the stretch, by its use"),
    Column("in_use_percent", "In-Use", "sum of the operations' time in it, of its duration"),
    Column("duration_ns", "Duration", "one chunk, or several next to each other"),
    Column("start_ns", "Start", "start of its first chunk"),
    *device_columns("that ends last on the device"),
)

REPORT = Report(
    SCHEMA,
    needs=(WORK_KINDS,),
    compute=compute,
    options=(
        ROWS,
        ReportOption("threshold", 50, "list only what is in use for less than this many percent"),
        ReportOption("chunks", 30, "number of chunks, 1 to 1000", least=1, most=1000),
    ),
)
