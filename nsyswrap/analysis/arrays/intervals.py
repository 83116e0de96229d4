"""Intervals of time, [start, end) in ns: what they cover, where they leave gaps, how much of each chunk.

All functions that take starts and ends take int64 arrays, in any order. Intervals may overlap, touch, and be
empty; none ends before it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Cover(NamedTuple):
    """Time that is covered: intervals in order of time that neither overlap, nor touch, nor are empty."""

    start: NDArray[Any]
    end: NDArray[Any]

    @property
    def length(self) -> int:
        """How much time it is, in ns."""
        return int((self.end - self.start).sum())

    def holds(self, times: NDArray[Any]) -> NDArray[Any]:
        """Mark the times that lie in it."""
        last = np.searchsorted(self.start, times, "right") - 1
        found: NDArray[Any] = last >= 0
        if len(self.start):
            found &= times < self.end[np.maximum(last, 0)]
        return found

    def within(self, start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
        """Return how much of it lies in each interval, in ns."""
        passed = np.concatenate(([0], np.cumsum(self.end - self.start)))
        return self._before(passed, end) - self._before(passed, start)  # type: ignore[no-any-return]

    def _before(self, passed: NDArray[Any], times: NDArray[Any]) -> NDArray[Any]:
        """Return how much of it lies before each time; ``passed`` is how much before each of its parts."""
        if not len(self.start):
            return np.zeros_like(times)
        last = np.maximum(np.searchsorted(self.start, times, "right") - 1, 0)
        part = np.clip(times, self.start[last], self.end[last]) - self.start[last]
        return passed[last] + part  # type: ignore[no-any-return]


def union(start: NDArray[Any], end: NDArray[Any]) -> Cover:
    """Return the time that at least one of the intervals covers."""
    order = np.argsort(start, kind="stable")
    order = order[start[order] < end[order]]
    start, reached = start[order], np.maximum.accumulate(end[order])
    if not len(order):
        return Cover(start, reached)
    apart = np.flatnonzero(start[1:] > reached[:-1])
    return Cover(start[np.append(0, apart + 1)], reached[np.append(apart, len(order) - 1)])


def intersection(left: Cover, right: Cover) -> Cover:
    """Return the time that both cover."""
    times = np.sort(np.concatenate((*left, *right)), kind="stable")
    both = np.flatnonzero(left.holds(times) & right.holds(times))  # from such a time to the next
    return union(times[both], times[both + 1])


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
