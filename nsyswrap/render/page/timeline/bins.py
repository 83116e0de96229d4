"""Count the events of a lane in bins of equal width: how much of each bin is taken, and what begins in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.render.timeline.lanes import Lane

PER_MILLE = 1000


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


def lane_density(lane: Lane, of: Level) -> Density:
    """Return the density of a lane. ``series`` are positions in its ``kinds``."""
    first = int(np.searchsorted(np.maximum.accumulate(lane.end_ns), of.start_ns, "right"))
    last = int(np.searchsorted(lane.start_ns, of.end_ns))
    start, end, series = (part[first:last] for part in (lane.start_ns, lane.end_ns, lane.series))
    parts = []
    for number in np.flatnonzero(np.bincount(series)).tolist():  # one by one: all at once take much memory
        mine = np.flatnonzero(series == number)
        found = density(start[mine], end[mine], np.zeros_like(mine), 1, of)
        parts.append(found._replace(series=np.full(len(found.bin), number)))
    empty = np.empty(0, np.int64)
    return Density(*map(np.concatenate, zip((empty,) * 4, *parts, strict=True)))
