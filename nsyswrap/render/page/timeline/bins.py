"""Count the events of a lane in bins of equal width: how much of each bin is taken, and what begins in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.render.timeline.lanes import Lane

PER_MILLE = 1000
_FINEST_NS = 20_000
_MOST_BINS = 1 << 17  # of a level


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
    begun = (start >= of.start_ns) & (start < of.end_ns)
    start, end = (np.clip(times, of.start_ns, of.end_ns) - of.start_ns for times in (start, end))
    size = of.bins + 1  # the last bin is for events that end with the level
    first, last = start // of.width_ns, end // of.width_ns
    key = series * np.int64(size) + first
    # As if all of an event were in the bin that it starts in. A float sum is exact up to 104 days.
    taken = np.bincount(key, end - start, count * size)
    over = np.flatnonzero(first != last)
    if len(over):
        left, right = key[over], key[over] + (last - first)[over]
        moved = end[over] % of.width_ns, (first[over] + 1) * of.width_ns - end[over]
        taken += np.bincount(np.concatenate((right, left)), np.concatenate(moved), count * size)
        long = right > left + 1
        edges, ones = np.concatenate((left[long] + 1, right[long])), np.ones(np.count_nonzero(long))
        if len(edges):  # the bins in between
            between = np.bincount(edges, np.concatenate((ones, -ones)), count * size)
            taken += np.cumsum(between, out=between) * of.width_ns
    begins = np.bincount(key[begun], minlength=count * size)
    cell = np.flatnonzero((taken > 0) | (begins > 0))
    cell = cell[cell % size < of.bins]
    return Density(*np.divmod(cell, size), taken[cell].astype(np.int64), begins[cell])


def lane_density(lane: Lane, of: Level) -> Density:
    """Return the density of a lane. ``series`` are positions in its ``kinds``, ascending."""
    meeting = lane.meeting(of.start_ns, of.end_ns)
    number = np.zeros(len(lane.kinds), np.int32)
    number[lane.present] = np.arange(len(lane.present))
    spans = (lane.start_ns[meeting], lane.end_ns[meeting])
    found = density(*spans, number[lane.series[meeting]], len(lane.present), of)
    return found._replace(series=np.array(lane.present)[found.series])


def finest(lanes: Sequence[Lane], span: tuple[int, int], cells: float) -> tuple[Level, float]:
    """Return bins for a part of time: about so many filled ones of all lanes and series, none too fine.

    Returns also about how many are filled: as many as if the events began at random.
    """
    counts: list[NDArray[Any]] = []
    times: list[NDArray[Any]] = []
    for lane in lanes:
        meeting = lane.meeting(*span)
        series = lane.series[meeting]
        counts.append(np.bincount(series))
        times.append(np.bincount(series, lane.end_ns[meeting] - lane.start_ns[meeting]))
    count, time = np.concatenate(counts), np.concatenate(times)
    length, width = max(span[1] - span[0], 1), max(_FINEST_NS, (span[1] - span[0]) // _MOST_BINS)

    def filled() -> float:
        bins = length / width
        return float(-bins * np.expm1(-(count + time / width) / bins).sum())

    while filled() > cells and width < length:
        width += width // 4
    return level(*span, -(-length // width)), filled()
