"""Tell the NVTX ranges that seem to measure GPU work from those that organize code.

Most ranges organize: they name a phase, as 'forward' does, and their time is not read as that of the GPU
work. `seems_measured` says what makes a range seem a measurement.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.names import CLASSES, COPY, SYNCHRONISE, call_classes, calls_named
from nsyswrap.analysis.nvtx_ranges import range_labels
from nsyswrap.analysis.timing_audit import Audit, audit
from nsyswrap.analysis.timing_audit.causation import causing_threads
from nsyswrap.base.constants import MISSING
from nsyswrap.base.lazy import regex
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture

_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_MOST = 0.5  # share of the instances of a name that have to synchronize: more than this
_BLOCKING_COPY = regex("cu(da)?Memcpy(?!.*Async)")
_STREAM_WAIT = regex("cu(da)?StreamSynchronize")


@per_capture
def seems_measured(capture: Capture) -> NDArray[Any]:
    """Return marks of the ranges of ``audit(capture)`` that the program seems to measure GPU work with.

    These are the ranges of nsyswrap.measure, and the ranges with GPU work whose name synchronizes as
    measurements do, in more than half of the instances. In each of these the thread of the range does one of:

    - It synchronizes on purpose inside the range, after the range's last launch.
    - It synchronizes before the range begins and at its end, so that no launch lies between a synchronization
      and the border. The one at the end may come inside the range after the last launch. It may also come
      after the range before the next launch, if it is on purpose. Before its first launch a thread counts as
      synchronized.

    A synchronization is a device, stream or event synchronize, or a blocking copy. It is on purpose if it
    does not merely fetch a copy. Blocking copies, and stream synchronizes whose last launch was a copy,
    merely fetch. So one synchronize per step, at the end of 'step', measures 'step'. It does not measure
    'forward', which no synchronization ends, nor 'optimizer', which begins behind unfinished work.
    """
    marks: NDArray[Any]
    whole = capture.whole
    if capture is not whole:
        every = audit(whole)
        marks = seems_measured(whole)[np.isin(every.row, audit(capture).row)]
        return marks
    ranges = audit(whole)
    if not len(ranges):
        return np.zeros(0, dtype=bool)
    timed = _synchronizes(whole, ranges) & (ranges.launches > 0)
    codes, _ = range_labels(whole, ranges.row)
    often = np.bincount(codes, timed) > _MOST * np.bincount(codes)
    marks = (ranges.reported_ns != MISSING) | (often[codes] & (ranges.launches > 0))
    return marks


def _synchronizes(whole: Capture, ranges: Audit) -> NDArray[Any]:
    """Mark the ranges that synchronize as measurements do."""
    threads = whole.columns("nvtx", "global_tid")["global_tid"][ranges.row]
    api = whole.columns("api", "global_tid", "start_ns")
    causing = causing_threads(whole)
    launching, waiting, on_purpose = _marks(whole, api["start_ns"], causing)
    marks = np.zeros(len(ranges), dtype=bool)
    for thread in ascending(threads).tolist():
        rows = np.flatnonzero(threads == thread)
        start, end = ranges.start_ns[rows], ranges.end_ns[rows]
        mine = api["global_tid"] == thread
        launches, waits, purposes = (
            np.sort(api["start_ns"][part])
            for part in (launching & (causing == thread), waiting & mine, on_purpose & mine)
        )
        last_launch = np.maximum(_last(launches, end), start)
        before = _last(waits, start) >= _last(launches, start)
        inside = _last(waits, end) >= last_launch
        behind = _next(purposes, end) < _next(launches, end)
        marks[rows] = (_last(purposes, end) >= last_launch) | (before & (inside | behind))
    return marks


def _marks(
    whole: Capture, start_ns: NDArray[Any], causing: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Mark the calls that launch, those that synchronize, and of the latter those that do so on purpose."""
    classes = call_classes(whole)
    launching, waiting, fetching = (np.zeros(len(classes), dtype=bool) for _ in range(3))
    started_by = gpu_operations_of(whole).call
    launching[started_by[started_by >= 0]] = True
    waiting[classes == CLASSES.index(SYNCHRONISE)] = True
    fetching[calls_named(whole, _BLOCKING_COPY)] = True
    waiting |= fetching
    order = np.lexsort((start_ns, causing))
    places = np.where(launching[order], np.arange(len(order)), -1)
    latest = order[np.maximum.accumulate(places)] if len(order) else order
    after_copy = np.zeros(len(order), dtype=bool)
    after_copy[order] = (classes[latest] == CLASSES.index(COPY)) & (causing[latest] == causing[order])
    streams = np.zeros(len(order), dtype=bool)
    streams[calls_named(whole, _STREAM_WAIT)] = True
    return launching, waiting, waiting & ~fetching & ~(streams & after_copy)


def _last(times: NDArray[Any], before: NDArray[Any]) -> NDArray[Any]:
    """Return the last of the sorted times before each of these; the least number without any."""
    return np.append(_LEAST, times)[np.searchsorted(times, before, "left")]


def _next(times: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
    """Return the first of the sorted times at or after each of these; the greatest number without any."""
    return np.append(times, _GREATEST)[np.searchsorted(times, at, "left")]
