"""Intervals of time, [start, end) in ns: where they leave gaps, and how much they take of each chunk.

All functions take the starts and the ends of the intervals as int64 arrays, in any order. Intervals may
overlap, touch, and be empty; none ends before it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def gaps(start: NDArray[Any], end: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return, in order of time, the intervals that each gap lies between, as two arrays of positions.

    Gap ``i`` reaches from ``end[before[i]]`` to ``start[after[i]]``. Where several intervals end together
    at a gap, the last of them in the arrays is the one before it.
    """
    starts, ends = np.argsort(start, kind="stable"), np.argsort(end, kind="stable")
    # The n-th end comes before the start after it only if the n intervals before are over: then all is idle.
    idle = np.flatnonzero(start[starts[1:]] > end[ends[:-1]])
    return ends[idle], starts[idle + 1]


def overlap(
    start: NDArray[Any], end: NDArray[Any], chunk_start: NDArray[Any], chunk_end: NDArray[Any]
) -> NDArray[Any]:
    """Return how much of every chunk the intervals take, in ns; what overlaps counts once per interval."""
    return _before(start, end, chunk_end) - _before(start, end, chunk_start)  # type: ignore[no-any-return]


def _before(start: NDArray[Any], end: NDArray[Any], times: NDArray[Any]) -> NDArray[Any]:
    """Return, for each time, the sum over the intervals of their part before it."""
    if not len(start):
        return np.zeros_like(times)
    moments = np.concatenate((start, end))
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    active = np.cumsum(np.where(order < len(start), 1, -1))  # intervals open from each moment to the next
    taken = np.concatenate(([0], np.cumsum(active[:-1] * np.diff(moments))))
    last = np.searchsorted(moments, times, "right") - 1
    known = np.maximum(last, 0)
    return np.where(last < 0, 0, taken[known] + active[known] * (times - moments[known]))
