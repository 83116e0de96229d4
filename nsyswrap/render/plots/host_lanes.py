"""Lanes of the host's threads: NVTX ranges by how many are open, and the time in CUDA API calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.spans import Spans
from nsyswrap.analysis.nvtx_ranges import nested_ranges
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.global_ids import process_ids, thread_ids
from nsyswrap.render.colors import API, NVTX
from nsyswrap.render.plots.lanes import Kind, Lane, Range, busiest, shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

NVTX_RANGE, API_CALL = Kind(2, "NVTX range", NVTX), Kind(2, "CUDA API call", API)
MOST_THREADS, MOST_LEVELS = 6, 3
_SINGLE = 4  # bins that a range takes to be drawn by itself

Named = tuple[Spans, list[str | None]]  # spans, and the name of each


def host_lanes(capture: Capture, edges: NDArray[Any]) -> tuple[list[Lane], int]:
    """Return the lanes of each thread, NVTX above API calls, and how many threads of less have none."""
    ranges, names = nvtx_spans(capture)
    calls = api_spans(capture)
    threads = np.concatenate((calls.thread, ranges.thread))
    if not len(threads):
        return [], 0
    known, codes = np.unique(threads, return_inverse=True)
    lasting = np.concatenate((calls.end - calls.start, ranges.end - ranges.start))
    kept = known[busiest(codes, lasting, MOST_THREADS)].tolist()
    lanes: list[Lane] = []
    for tid in kept:
        label = _label(capture, tid, several=len(set(process_ids(known).tolist())) > 1)
        mine = np.flatnonzero(ranges.thread == tid)
        lanes += _range_lanes(label, _of(ranges, mine), [names[i] for i in mine.tolist()], edges)
        mine = np.flatnonzero(calls.thread == tid)
        if taken := shares(calls.start[mine], calls.end[mine], np.zeros_like(mine), [API_CALL], edges):
            lanes.append(Lane(f"{label} API", taken))
    return lanes, len(known) - len(kept)


def api_spans(capture: Capture) -> Spans:
    """Return all CUDA API calls; none where there are none."""
    if not capture.has("api"):
        return Spans(*(np.empty(0, np.int64) for _ in range(3)))
    return Spans(*capture.columns("api", "global_tid", "start_ns", "end_ns").values())


def nvtx_spans(capture: Capture) -> Named:
    """Return the NVTX ranges that ended on their thread, and the name of each without a leading colon."""
    if not capture.has("nvtx"):
        return Spans(*(np.empty(0, np.int64) for _ in range(3))), []
    ranges = nested_ranges(capture)
    ended = np.flatnonzero(ranges.spans.end != MISSING)
    names = [name and name.removeprefix(":") for name in ranges.labels(ranges.code[ended])]
    return _of(ranges.spans, ended), names


def _of(spans: Spans, rows: NDArray[Any]) -> Spans:
    return Spans(*(part[rows] for part in spans))


def _label(capture: Capture, tid: int, *, several: bool) -> str:
    """Name a thread as the capture does, by its numbers where it does not."""
    number = int(thread_ids(np.array(tid)))
    name = capture.threads.get(tid, (None, None))[1] or "thread"
    return f"pid {int(process_ids(np.array(tid)))} {name} {number}" if several else f"{name} {number}"


def _range_lanes(label: str, spans: Spans, names: list[str | None], edges: NDArray[Any]) -> list[Lane]:
    """Return a lane for each level: ranges longer than a bin by themselves, the rest as shares."""
    level = _levels(spans)
    long = (
        (spans.end - spans.start >= _SINGLE * np.diff(edges).max())
        & (spans.end > edges[0])
        & (spans.start < edges[-1])
    )
    lanes = []
    for number in range(min(MOST_LEVELS, int(level.max(initial=-1)) + 1)):
        short = np.flatnonzero((level == number) & ~long)
        single = np.flatnonzero((level == number) & long).tolist()
        taken = shares(spans.start[short], spans.end[short], np.zeros_like(short), [NVTX_RANGE], edges)
        ranges = [Range(int(spans.start[i]), int(spans.end[i]), names[i]) for i in single]
        if taken or ranges:
            lanes.append(Lane(f"{label} NVTX" if not number else "", taken, ranges))
    return lanes


def _levels(spans: Spans) -> NDArray[Any]:
    """Return how many other ranges are open where each begins; of equal starts the longer comes first."""
    order = np.lexsort((-spans.end, spans.start))
    closed = np.searchsorted(np.sort(spans.end), spans.start[order], "right")
    level = np.empty(len(order), np.int64)
    level[order] = np.maximum(np.arange(len(order)) - closed, 0)
    return level
