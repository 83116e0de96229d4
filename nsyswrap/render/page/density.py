"""Choose the events that the timeline of the page keeps, and count all events in bins.

A small capture keeps all events. A large one keeps the longest events and those around the longest GPU gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.render.timeline.lanes import CALLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.timeline.lanes import Lane


_GAPS = 8  # the longest GPU gaps
_EVENTS_PER_SIDE = 12  # of a gap, in each lane

PER_MILLE = 1000


def kept_events(capture: Capture, lanes: Sequence[Lane], limit: int) -> list[NDArray[Any]]:
    """Return the positions of the kept events of each lane, ascending.

    All lanes together keep about ``limit`` events. The calls that launched kept events are kept too.
    """
    total = sum(map(len, lanes))
    if total <= limit:
        return [np.arange(len(lane)) for lane in lanes]
    longest = max(limit // (2 * len(lanes)), 10)
    gaps = _longest_gaps(capture)
    kept = [np.union1d(_longest(lane, longest), _around_gaps(lane, gaps)) for lane in lanes]
    calls = np.unique(np.concatenate([lane.call[rows] for lane, rows in zip(lanes, kept, strict=True)]))
    return [np.union1d(rows, _rows_of_calls(lane, calls)) for lane, rows in zip(lanes, kept, strict=True)]


def _longest(lane: Lane, count: int) -> NDArray[Any]:
    if len(lane) <= count:
        return np.arange(len(lane))
    return np.argpartition(lane.start_ns - lane.end_ns, count)[:count]


def _longest_gaps(capture: Capture) -> list[tuple[int, int]]:
    gaps = gaps_of(capture)
    order = gaps.longest(_GAPS)
    return list(zip(gaps.start_ns[order].tolist(), gaps.end_ns[order].tolist(), strict=True))


def _around_gaps(lane: Lane, gaps: Sequence[tuple[int, int]]) -> NDArray[Any]:
    """Return the positions of events before, in and after the gaps. Gaps are (start, end) in ns."""
    side = _EVENTS_PER_SIDE
    positions = [np.empty(0, np.int64)]
    for start, end in gaps:
        first, last = np.searchsorted(lane.start_ns, (start, end))
        near = np.arange(max(first - side, 0), min(last + side, len(lane)))
        positions.append(near if len(near) <= 4 * side else np.append(near[:side], near[-side:]))
    return np.unique(np.concatenate(positions))


def _rows_of_calls(lane: Lane, calls: NDArray[Any]) -> NDArray[Any]:
    return (
        np.flatnonzero(np.isin(lane.row, calls[calls >= 0]))
        if lane.family == CALLS
        else np.empty(0, np.int64)
    )


class Level(NamedTuple):
    """Bins of equal width: ``bins`` of them, each ``width_ns`` long, from ``start_ns``."""

    start_ns: int
    width_ns: int
    bins: int

    @property
    def end_ns(self) -> int:
        """The end of the last bin."""
        return self.start_ns + self.width_ns * self.bins


class Density(NamedTuple):
    """The bins that hold something, one entry for each series and bin.

    ``taken_ns`` is the event time inside the bin, summed. ``begun`` counts the events that start in the bin.
    """

    series: NDArray[Any]
    bin: NDArray[Any]
    taken_ns: NDArray[Any]
    begun: NDArray[Any]


def level(first_ns: int, last_ns: int, bins: int) -> Level:
    """Return at most ``bins`` bins of whole ns that cover the time from ``first_ns`` to ``last_ns``."""
    length = max(last_ns - first_ns, 1)
    width = -(-length // bins)
    return Level(first_ns, width, -(-length // width))


def density(start: NDArray[Any], end: NDArray[Any], series: NDArray[Any], count: int, of: Level) -> Density:
    """Return the density of events of ``count`` series. Times outside the level are cut off."""
    begins, begun = start, (start >= of.start_ns) & (start < of.end_ns)
    start, end = (np.clip(times, of.start_ns, of.end_ns) - of.start_ns for times in (start, end))
    size = of.bins + 1  # the last bin is for events that end with the level
    opened, open_parts = _sums(start, series, count, size, of.width_ns)
    closed, closed_parts = _sums(end, series, count, size, of.width_ns)
    running = np.cumsum(opened - closed, axis=1)
    before = np.concatenate((np.zeros((count, 1), np.int64), running[:, :-1]), axis=1)
    taken = (before * of.width_ns + open_parts - closed_parts)[:, : of.bins]
    first = (begins[begun] - of.start_ns) // of.width_ns
    counts = np.bincount(series[begun] * of.bins + first, minlength=count * of.bins).reshape(count, of.bins)
    which, place = np.nonzero((taken > 0) | (counts > 0))
    return Density(which, place, taken[which, place], counts[which, place])


def _sums(
    times: NDArray[Any], series: NDArray[Any], count: int, size: int, width: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return for each series and bin the number of times in it and the sum of their ns to its end."""
    place = times // width
    left = (place + 1) * width - times
    key = series * size + place
    number = np.bincount(key, minlength=count * size).reshape(count, size)
    rest = np.bincount(key, left, count * size).reshape(count, size)
    return number, rest.astype(np.int64)  # a float sum is exact up to 104 days
