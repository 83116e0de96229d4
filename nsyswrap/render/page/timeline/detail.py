"""Choose the events that the timeline of a page keeps one by one.

A small capture keeps all. A large one keeps all events of some windows of time, and the longest of each lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.render.timeline.lanes import CALLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.arrays.intervals import Cover
    from nsyswrap.render.timeline.lanes import Lane

    Spot = tuple[int, int]  # start and end in ns


_LONGEST = 0.1  # of all kept events: the longest of each lane
_LARGEST = 0.1  # of all kept events: those around one spot at most


class Kept:
    """The events of each lane that are kept, and the windows in which all are; nothing is left out of them.

    ``rows`` are the positions of the kept events of each lane, ascending.
    """

    def __init__(self, lanes: Sequence[Lane], spots: Sequence[Spot], limit: int) -> None:
        """Keep about ``limit`` events of all lanes: all of them, or those around the spots, best first."""
        self._lanes, self._limit = lanes, limit
        self._reach = [np.maximum.accumulate(lane.end_ns) for lane in lanes]
        self.whole = sum(map(len, lanes)) <= limit
        if self.whole:
            self.windows: list[Spot] = []
            self.rows = [np.arange(len(lane)) for lane in lanes]
            return
        chosen = self._chosen(spots)
        self.windows = list(zip(chosen.start.tolist(), chosen.end.tolist(), strict=True))
        longest = max(int(_LONGEST * limit) // max(len(lanes), 1), 10)
        kept = [np.union1d(_longest(lane, longest), self._inside(i)) for i, lane in enumerate(lanes)]
        calls = np.unique(np.concatenate([lane.call[rows] for lane, rows in zip(lanes, kept, strict=True)]))
        self.rows = [np.union1d(rows, _of_calls(lane, calls)) for lane, rows in zip(lanes, kept, strict=True)]

    def _count(self, start: int, end: int) -> int:
        """Return the number of events that a window meets."""
        return sum(last - first for first, last in self._places(start, end))

    def _places(self, start: int, end: int) -> list[tuple[int, int]]:
        return [
            (int(np.searchsorted(reach, start, "right")), int(np.searchsorted(lane.start_ns, end)))
            for lane, reach in zip(self._lanes, self._reach, strict=True)
        ]

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
            while True:
                wider = (start - (end - start) // 2, end + (end - start) // 2)
                more = self._count(*wider)
                if more - size > left or wider[1] - wider[0] <= end - start:
                    break
                if start < min(int(lane.start_ns[0]) for lane in self._lanes) and more == size:
                    break
                start, end = wider
            found[0] = (start, end)
        times = np.array(found, np.int64).reshape(-1, 2)
        return union(times[:, 0], times[:, 1])

    def _shrunk(self, start: int, end: int, most: int) -> Spot:
        """Return a window around the middle of a spot that meets at most about so many events."""
        while self._count(start, end) > most and end - start > 1000:  # noqa: PLR2004 - a microsecond
            quarter = (end - start) // 4
            start, end = start + quarter, end - quarter
        return start, end

    def _inside(self, lane: int) -> NDArray[Any]:
        """Return the positions of a lane's events in the windows."""
        start, end = self._lanes[lane].start_ns, self._lanes[lane].end_ns
        parts = [np.empty(0, np.int64)]
        for first_ns, last_ns in self.windows:
            first = int(np.searchsorted(self._reach[lane], first_ns, "right"))
            rows = np.arange(first, int(np.searchsorted(start, last_ns)))
            parts.append(rows[end[rows] > first_ns])
        return np.unique(np.concatenate(parts))


def _longest(lane: Lane, count: int) -> NDArray[Any]:
    if len(lane) <= count:
        return np.arange(len(lane))
    return np.argpartition(lane.start_ns - lane.end_ns, count)[:count]


def _of_calls(lane: Lane, calls: NDArray[Any]) -> NDArray[Any]:
    """Return the positions of the events that are these API calls."""
    if lane.family != CALLS:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.isin(lane.row, calls[calls >= 0]))
