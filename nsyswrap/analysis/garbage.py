"""Read the garbage collections of Python that the hook in the program marked (``--trace python-gc``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.nvtx_ranges import domain_names, texts_and_domains
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import NVTX_MARK, PROCESS_MASK

GARBAGE_DOMAIN = "nsyswrap.gc"  # of NVTX


def garbage_traced(whole: Capture) -> bool:
    """Return True if the hook was there to mark collections."""
    return whole.has("nvtx") and GARBAGE_DOMAIN in domain_names(whole)


@per_capture
def collections_of(whole: Capture, global_pid: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return start and end in ns of the marked collections of a process: no Python of it runs meanwhile."""
    if not garbage_traced(whole):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    events = whole.columns("nvtx", "start_ns", "event_type", "global_tid", "payload")
    end_ns, took_ns = events["start_ns"], events["payload"]
    marks = (events["event_type"] == NVTX_MARK) & (took_ns > 0) & (took_ns <= end_ns)
    rows = np.flatnonzero(marks & (events["global_tid"] & PROCESS_MASK == global_pid))
    codes, named = texts_and_domains(whole, rows)
    rows = rows[np.array([domain == GARBAGE_DOMAIN for _, domain in named] or [False])[codes]]
    return end_ns[rows] - took_ns[rows], end_ns[rows]
