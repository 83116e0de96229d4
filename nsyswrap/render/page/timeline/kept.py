"""What the timeline of a page keeps of a large capture: some events one by one, and bins of all events.

A small capture keeps all events. A large one keeps all events of some windows of time, and the longest of
each lane. A bin says how much of it is taken, and what begins in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.render.timeline.names import CALLS

if TYPE_CHECKING:
    from nsyswrap.capture.intervals import IntervalSet
    from nsyswrap.render.timeline.lanes import Lane

    Spot = tuple[int, int]  # start and end in ns

_LONGEST = 0.1  # of all kept events: the longest of each lane
_SLIGHTLY = 16  # a window does not grow by less than this part of its length
_LARGEST = 0.1  # of all kept events: those around one spot at most
PER_MILLE = 1000
_FINEST_NS = 20_000
_MOST_BINS = 1 << 17  # of a level


class Kept:
    """The events of each lane that are kept, and the windows in which all are; nothing is left out of them.

    ``rows`` are the positions of the kept events of each lane, ascending.
    """

    def __init__(self, lanes: Sequence[Lane], spots: Sequence[Spot], limit: int) -> None:
        """Keep about ``limit`` events of all lanes: all of them, or those around the spots, best first."""
        self._lanes, self._limit = lanes, limit
        self.whole = sum(map(len, lanes)) <= limit
        if self.whole:
            self.windows: list[Spot] = []
            self.rows = [np.arange(len(lane)) for lane in lanes]
            return
        chosen = self._chosen(spots)
        self.windows = list(zip(chosen.start.tolist(), chosen.end.tolist(), strict=True))
        longest = max(int(_LONGEST * limit) // max(len(lanes), 1), 10)
        kept = [self._kept(lane, longest) for lane in lanes]
        calls = np.concatenate([lane.call[marks] for lane, marks in zip(lanes, kept, strict=True)])
        made = [lane for lane in lanes if lane.family == CALLS]
        launched = np.zeros(max(int(part.max()) for part in (calls, *(lane.row for lane in made))) + 2, bool)
        launched[calls] = True
        launched[-1] = False  # what no call launched
        self.rows = [
            np.flatnonzero(marks | launched[lane.row] if lane.family == CALLS else marks)
            for lane, marks in zip(lanes, kept, strict=True)
        ]

    def _count(self, start: int, end: int) -> int:
        """Return the number of events that a window meets."""
        found = [lane.meeting(start, end) for lane in self._lanes]
        return sum(places.stop - places.start for places in found)

    def _chosen(self, spots: Sequence[Spot]) -> IntervalSet:
        """Return the windows around the spots that fit; the first grows until nothing more fits."""
        most = int((1 - 2 * _LONGEST) * self._limit)
        found: list[Spot] = []
        left = most
        for start, end in spots:
            window = self._shrunk(start, end, int(_LARGEST * self._limit))
            count = self._count(*window)
            if count <= left:
                found.append(window)
                left -= count
        if found:
            (start, end), size = found[0], self._count(*found[0])
            first = min(int(lane.start_ns[0]) for lane in self._lanes)
            part = 2  # of its length, by which it grows at both ends
            while part <= _SLIGHTLY and (more := (end - start) // part):
                wider = self._count(start - more, end + more)
                if wider - size > left:
                    part *= 2
                    continue
                if start < first and wider == size:
                    break
                start, end = start - more, end + more
            found[0] = (start, end)
        times = np.array(found, np.int64).reshape(-1, 2)
        return union(times[:, 0], times[:, 1])

    def _shrunk(self, start: int, end: int, most: int) -> Spot:
        """Return a window around the middle of a spot that meets at most about so many events."""
        while self._count(start, end) > most and end - start > 1000:  # noqa: PLR2004 - a microsecond
            quarter = (end - start) // 4
            start, end = start + quarter, end - quarter
        return start, end

    def _kept(self, lane: Lane, longest: int) -> NDArray[np.bool_]:
        """Mark a lane's longest events and those in the windows."""
        marks = np.full(len(lane), len(lane) <= longest)
        if len(lane) > longest:
            marks[np.argpartition(lane.start_ns - lane.end_ns, longest)[:longest]] = True
        for start, end in self.windows:
            places = lane.meeting(start, end)
            marks[places] |= lane.end_ns[places] > start
        return marks


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
