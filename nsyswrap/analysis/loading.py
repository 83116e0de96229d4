"""When a process loaded modules, libraries or contexts, or compiled kernels."""

from __future__ import annotations

import numpy as np

from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.names import CLASSES, LOAD, call_classes
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import IntervalSet
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import LOADING_TYPES, PROCESS_MASK
from nsyswrap.capture.stream import one_of


@per_capture
def loading(whole: Capture, process: int) -> IntervalSet:
    """Return the time in which a process loaded or compiled, by its calls and by the overheads of CUDA."""
    fields = ("global_tid", "start_ns", "end_ns")
    parts = []
    if whole.has("api"):
        parts.append((whole.columns("api", *fields), call_classes(whole) == CLASSES.index(LOAD)))
    if whole.has("cuda_overhead"):
        events = whole.columns("cuda_overhead", *fields, "overhead_type")
        parts.append((events, one_of(events["overhead_type"], LOADING_TYPES)))
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for events, loads in parts:
        rows = np.flatnonzero(loads)
        rows = rows[events["global_tid"][rows] & PROCESS_MASK == process]
        starts.append(events["start_ns"][rows])
        ends.append(events["end_ns"][rows])
    return union(np.concatenate(starts), np.concatenate(ends))
