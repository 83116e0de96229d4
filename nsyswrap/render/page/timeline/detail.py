"""Choose the events that the timeline of a page keeps one by one.

A small capture keeps all. A large one keeps all events of some windows of time, and the longest of each lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.render.timeline.names import CALLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.arrays.intervals import Cover
    from nsyswrap.render.timeline.lanes import Lane

    Spot = tuple[int, int]  # start and end in ns


_LONGEST = 0.1  # of all kept events: the longest of each lane
_SLIGHTLY = 16  # a window does not grow by less than this part of its length
_LARGEST = 0.1  # of all kept events: those around one spot at most


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

    def _chosen(self, spots: Sequence[Spot]) -> Cover:
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
