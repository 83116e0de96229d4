"""Compute unions, intersections, gaps and overlaps of time intervals [start, end) in ns.

Starts and ends are int64 arrays in any order. Intervals may overlap, touch and be empty, but must not end
before they start.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.capture.intervals import IntervalSet

NOTHING = IntervalSet(*(np.empty(0, np.int64),) * 2)


def union(start: NDArray[Any], end: NDArray[Any]) -> IntervalSet:
    """Return the time covered by at least one interval."""
    filled = start < end
    if not filled.all():
        start, end = start[filled], end[filled]
    if (start[1:] < start[:-1]).any():  # events mostly come in order
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    if not len(start):
        return IntervalSet(start, end)
    reached = np.maximum.accumulate(end)
    apart = start[1:] > reached[:-1]
    if apart.all():
        return IntervalSet(start, end)
    edges = np.flatnonzero(np.append(apart, True))  # the last of each piece
    return IntervalSet(start[np.append(0, edges[:-1] + 1)], reached[edges])


def intersection(left: IntervalSet, right: IntervalSet) -> IntervalSet:
    """Return the time covered by both."""
    few, many = sorted((left, right), key=lambda cover: len(cover.start))
    if len(few.start) == 1:  # often the time judged, which holds most of the other
        first, last = np.searchsorted(many.end, few.start, "right"), np.searchsorted(many.start, few.end)
        within = slice(int(first[0]), int(last[0]))
        return IntervalSet(np.maximum(many.start[within], few.start), np.minimum(many.end[within], few.end))
    first = np.searchsorted(many.end, few.start, "right")
    count = np.maximum(np.searchsorted(many.start, few.end) - first, 0)  # of those that meet each of the few
    row = np.repeat(np.arange(len(count)), count)
    other = np.arange(len(row)) + np.repeat(first - (np.cumsum(count) - count), count)
    start, end = np.maximum(few.start[row], many.start[other]), np.minimum(few.end[row], many.end[other])
    return IntervalSet(start[start < end], end[start < end])


def difference(cover: IntervalSet, taken: IntervalSet) -> IntervalSet:
    """Return the part of a cover that the other does not cover."""
    ends = np.iinfo(np.int64)
    return intersection(cover, IntervalSet(np.append(ends.min, taken.end), np.append(taken.start, ends.max)))


def joined(*covers: IntervalSet) -> IntervalSet:
    """Return the time that at least one cover covers."""
    start, end = (np.concatenate(times) for times in zip(*covers, strict=True))
    filled = start < end
    if not filled.all():
        start, end = start[filled], end[filled]
    start.sort(kind="stable")
    end.sort(kind="stable")
    # The n-th end precedes the next start only if the first n intervals are over: then there is a gap.
    edges = np.flatnonzero(start[1:] > end[:-1])
    if len(edges) + 1 >= len(start):
        return IntervalSet(start, end)
    return IntervalSet(start[np.append(0, edges + 1)], end[np.append(edges, len(end) - 1)])


def gaps(start: NDArray[Any], end: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the positions of the intervals before and after each gap, in order of time.

    Gap ``i`` lasts from ``end[before[i]]`` to ``start[after[i]]``. If several end at the same time,
    ``before`` has the last of them in the arrays.
    """
    if (start[1:] >= start[:-1]).all() and (start <= end).all():  # as events mostly come
        reached = np.maximum.accumulate(end)
        last = np.maximum.accumulate(np.where(end == reached, np.arange(len(end)), 0))
        idle = np.flatnonzero(start[1:] > reached[:-1])
        return last[idle], idle + 1
    starts, ends = np.argsort(start, kind="stable"), np.argsort(end, kind="stable")
    # The n-th end precedes the next start only if the first n intervals are over: then there is a gap.
    idle = np.flatnonzero(start[starts[1:]] > end[ends[:-1]])
    return ends[idle], starts[idle + 1]


def overlap(
    start: NDArray[Any], end: NDArray[Any], chunk_start: NDArray[Any], chunk_end: NDArray[Any]
) -> NDArray[Any]:
    """Return the time of the intervals in each chunk, in ns; overlaps count once per interval."""
    return _before(start, end, chunk_end) - _before(start, end, chunk_start)  # type: ignore[no-any-return]


def _before(start: NDArray[Any], end: NDArray[Any], times: NDArray[Any]) -> NDArray[Any]:
    """Return for each time the sum of the parts of all intervals before it."""
    if not len(start):
        return np.zeros_like(times)
    edges = np.concatenate((start, end))
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    active = np.cumsum(np.where(order < len(start), 1, -1))  # intervals open from each edge to the next
    taken = np.concatenate(([0], np.cumsum(active[:-1] * np.diff(edges))))
    last = np.searchsorted(edges, times, "right") - 1
    known = np.maximum(last, 0)
    return np.where(last < 0, 0, taken[known] + active[known] * (times - edges[known]))
