"""Choose the events that the page keeps one by one, and count the others bin by bin.

A small capture keeps all of them, a large one the longest and those around gaps. Bins stand for the events
that are narrower than a pixel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.gpu_gaps import gaps_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.page.lanes import Lane


_GAPS = 8  # the longest ones
_BESIDE = 12  # events on each side of one, of each lane

PER_MILLE = 1000


def chosen(capture: Capture, lanes: Sequence[Lane], most: int) -> list[NDArray[Any]]:
    """Return the positions of the kept events of each lane, ascending; about ``most`` together."""
    total = sum(map(len, lanes))
    if total <= most:
        return [np.arange(len(lane)) for lane in lanes]
    longest = max(most // (2 * len(lanes)), 10)
    gaps = _longest_gaps(capture)
    kept = [np.union1d(_longest(lane, longest), _beside(lane, gaps)) for lane in lanes]
    calls = np.unique(np.concatenate([lane.call[rows] for lane, rows in zip(lanes, kept, strict=True)]))
    return [np.union1d(rows, _rows(lane, calls)) for lane, rows in zip(lanes, kept, strict=True)]


def _longest(lane: Lane, count: int) -> NDArray[Any]:
    if len(lane) <= count:
        return np.arange(len(lane))
    return np.argpartition(lane.start_ns - lane.end_ns, count)[:count]


def _longest_gaps(capture: Capture) -> list[tuple[int, int]]:
    gaps = gaps_of(capture)
    order = np.argsort(-gaps.duration_ns, kind="stable")[:_GAPS]
    return list(zip(gaps.start_ns[order].tolist(), gaps.end_ns[order].tolist(), strict=True))


def _beside(lane: Lane, gaps: Sequence[tuple[int, int]]) -> NDArray[Any]:
    """Return the events of a lane before, in and after the gaps."""
    found = [np.empty(0, np.int64)]
    for start, end in gaps:
        first, last = np.searchsorted(lane.start_ns, (start, end))
        before, after = max(first - _BESIDE, 0), min(last + _BESIDE, len(lane))
        inside = np.arange(before, after)
        found.append(inside if len(inside) <= 4 * _BESIDE else np.append(inside[:_BESIDE], inside[-_BESIDE:]))
    return np.unique(np.concatenate(found))


def _rows(lane: Lane, calls: NDArray[Any]) -> NDArray[Any]:
    """Return which events of a lane are these API calls."""
    return np.flatnonzero((lane.row >= 0) & np.isin(lane.row, calls[calls >= 0]))


class Level(NamedTuple):
    """A stretch of time and its bins: from ``start_ns``, each ``width_ns`` long."""

    start_ns: int
    width_ns: int
    bins: int

    @property
    def end_ns(self) -> int:
        """The end of the last bin."""
        return self.start_ns + self.width_ns * self.bins


class Density(NamedTuple):
    """Of each series and bin of which there is something: how much of the bin is taken, and by how many.

    ``bin`` and ``series`` say where, ``taken_ns`` is the sum of what lies in the bin, ``begun`` counts the
    events that begin in it.
    """

    series: NDArray[Any]
    bin: NDArray[Any]
    taken_ns: NDArray[Any]
    begun: NDArray[Any]


def level(first_ns: int, last_ns: int, bins: int) -> Level:
    """Return bins of whole ns that hold all from the first time to the last."""
    length = max(last_ns - first_ns, 1)
    width = -(-length // bins)
    return Level(first_ns, width, -(-length // width))


def density(start: NDArray[Any], end: NDArray[Any], series: NDArray[Any], count: int, of: Level) -> Density:
    """Return the density of events of ``count`` series; what lies outside of the level is cut off."""
    begins, begun = start, (start >= of.start_ns) & (start < of.end_ns)
    start, end = (np.clip(times, of.start_ns, of.end_ns) - of.start_ns for times in (start, end))
    size = of.bins + 1  # a last one for what ends with the level
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
    """Return, by series and bin, how many times lie in it, and how far they are from its end, summed."""
    place = times // width
    left = (place + 1) * width - times
    key = series * size + place
    number = np.bincount(key, minlength=count * size).reshape(count, size)
    rest = np.bincount(key, left, count * size).reshape(count, size)
    return number, rest.astype(np.int64)  # exact up to 104 days
