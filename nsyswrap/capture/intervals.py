"""Time intervals that do not overlap, and what part of events or of other intervals lies in them, in ns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base.constants import MISSING


class IntervalSet(NamedTuple):
    """Intervals [start, end) in order of time that do not overlap or touch, as int64 arrays.

    Those of ``union`` are not empty. A selection can have an interval of 0 ns, and always has at least one.
    """

    start: NDArray[Any]
    end: NDArray[Any]

    @property
    def length(self) -> int:
        """The covered time in ns."""
        return int((self.end - self.start).sum())

    def holds(self, times: NDArray[Any]) -> NDArray[Any]:
        """Mark the times that are covered."""
        if len(self.start) == 1:
            return (times >= self.start) & (times < self.end)
        last = np.searchsorted(self.start, times, "right") - 1
        inside: NDArray[Any] = last >= 0
        if len(self.start):
            inside &= times < self.end[np.maximum(last, 0)]
        return inside

    def within(self, start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
        """Return the covered time in each interval, in ns."""
        passed = np.concatenate(([0], np.cumsum(self.end - self.start)))
        return self._before(passed, end) - self._before(passed, start)  # type: ignore[no-any-return]

    def clipped_durations(self, start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
        """Return the time of each clipped row that lies in intervals, in ns."""
        return end - start if len(self.start) == 1 else self.within(start, end)

    def holding(self, start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
        """Mark the rows with a part in an interval, also rows of 0 ns."""
        at, inside = self._first(start)
        return inside & ((self.start[at] <= start) | (self.start[at] < end))  # type: ignore[no-any-return]

    def overlapping(self, start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
        """Mark the rows in an interval by nsys' rule; a row that never ended counts by its start alone."""
        marks = np.zeros(len(start), dtype=bool)
        for times in (start, end):
            at, inside = self._first(times)
            marks |= inside & (self.start[at] <= times) & (times != MISSING)
        later = np.searchsorted(self.start, start, "right")  # the first interval that such a row can span
        ends = self.end[np.minimum(later, len(self.end) - 1)]
        spans = (later < len(self.start)) & (ends <= end) & (start != MISSING) & (end != MISSING)
        return marks | spans  # type: ignore[no-any-return]

    def clip(self, start: NDArray[Any], end: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the first and last selected time of each row. MISSING stays."""
        first, last = self._ends(start, end)
        clipped = np.clip(start, self.start[first], self.end[first])
        until = np.clip(end, self.start[last], self.end[last])
        return tuple(
            np.where(times == MISSING, MISSING, part) for times, part in ((start, clipped), (end, until))
        )  # type: ignore[return-value]

    def split(
        self, start: NDArray[Any], end: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the part of each row in each interval it crosses: position of the row, start and end."""
        first, last = self._ends(start, end)
        parts = np.maximum(last - first, 0) + 1
        row = np.repeat(np.arange(len(start)), parts)
        within = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
        at = first[row] + within
        edges = self.start[at], self.end[at]
        return row, np.clip(start[row], *edges), np.clip(end[row], *edges)

    def _before(self, passed: NDArray[Any], times: NDArray[Any]) -> NDArray[Any]:
        """Return the covered time before each time; ``passed`` is that before each interval of the cover."""
        if not len(self.start):
            return np.zeros_like(times)
        last = np.maximum(np.searchsorted(self.start, times, "right") - 1, 0)
        part = np.clip(times, self.start[last], self.end[last]) - self.start[last]
        return passed[last] + part  # type: ignore[no-any-return]

    def _first(self, times: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the first interval that ends after each time, and whether there is one."""
        at = np.searchsorted(self.end, times, "right")
        return np.minimum(at, len(self.end) - 1), at < len(self.end)

    def _ends(self, start: NDArray[Any], end: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the first and the last interval that each row has a part in."""
        first, _ = self._first(start)
        last = np.maximum(np.searchsorted(self.start, end, "left") - 1, 0)
        return first, np.where(end > start, last, first)
