"""Split host code during gaps by Python's global interpreter lock, where nsys traced it (-t python-gil).

The thread that launches next holds the lock, waits for it, or neither: then it ran code that needs no lock.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.nvtx_ranges import texts_and_domains, thread_ranges
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import union
from nsyswrap.capture.per_capture import per_capture

GIL_DOMAIN = "GIL Trace"  # of NVTX, with the ranges of the lock
HOLDING, WAITING = "holding", "waiting"
STATES = {HOLDING: "Holding GIL", WAITING: "Waiting for GIL"}  # as nsys names the ranges


class HostPieces(NamedTuple):
    """Parts of the host code in gaps: the position of the gap, and start and end in ns."""

    gap: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]


def of_the_program(whole: Capture, rows: NDArray[Any]) -> NDArray[Any]:
    """Mark the NVTX events that are not ranges of the lock."""
    codes, named = texts_and_domains(whole, rows)
    marks = np.array([domain != GIL_DOMAIN for _, domain in named] or [True])
    return marks[codes] if len(codes) else np.empty(0, bool)


@per_capture
def gil_parts(capture: Capture) -> dict[str, HostPieces] | None:
    """Return the parts of host code in gaps in each of STATES; None if the lock was not traced."""
    if not capture.whole.has("nvtx"):
        return None
    rows, spans = thread_ranges(capture.whole)
    codes, named = texts_and_domains(capture.whole, rows)
    numbers = {text: number for number, text in enumerate(STATES.values())}
    known = [numbers.get(text or "", -1) if domain == GIL_DOMAIN else -1 for text, domain in named]
    state = np.array(known or [-1])[codes] if len(codes) else np.empty(0, np.int64)
    if not (state >= 0).any():
        return None
    gaps = gaps_of(capture)
    mine = gaps.segments_of["host"]
    gap, start, end, _ = (field[mine] for field in gaps.segments)
    thread = gaps.thread[gap]
    found = {}
    for number, name in enumerate(STATES):
        parts = [HostPieces(*(np.empty(0, np.int64),) * 3)]
        for one in np.unique(thread).tolist():
            ranges = np.flatnonzero((state == number) & (spans.thread == one))
            cover = union(spans.start[ranges], spans.end[ranges])
            if cover.length:
                here = np.flatnonzero(thread == one)
                row, first, last = cover.split(start[here], end[here])
                inside = np.flatnonzero(last > first)
                parts.append(HostPieces(gap[here[row[inside]]], first[inside], last[inside]))
        found[name] = HostPieces(*map(np.concatenate, zip(*parts, strict=True)))
    return found
