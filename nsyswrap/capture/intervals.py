"""Time intervals that do not overlap, and what part of events or of other intervals lies in them, in ns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.schema import NVTX_PUSH_POP, NVTX_START_END, PID_SHIFT
from nsyswrap.capture.stream import Columns, one_of

Events = Mapping[str, NDArray[Any]]

LEAST, MOST = -(2**63), 2**63 - 1  # ns: the ends of a window that are not given
_ALIKE = 64  # times as many intervals: up to there, sorting all ends is faster than a search for each


class IntervalSet(NamedTuple):
    """Intervals [start, end) in order of time that do not overlap or touch, as int64 arrays.

    Those of ``union`` are not empty. A selection can have an interval of 0 ns, and always has at least one.
    """

    start: NDArray[Any]
    end: NDArray[Any]

    @property
    def length(self) -> int:
        """The covered time in ns."""
        return int(self.end.sum() - self.start.sum())  # sums beyond 64 bits have the same difference

    def holds(self, times: NDArray[Any]) -> NDArray[Any]:
        """Mark the times that are covered."""
        if len(self.start) == 1:
            return (times >= self.start) & (times < self.end)
        last = self.start.searchsorted(times, "right") - 1
        inside: NDArray[Any] = last >= 0
        if len(self.start):
            inside &= times < self.end.take(np.maximum(last, 0))
        return inside

    def within(self, start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
        """Return the covered time in each interval, in ns."""
        if not len(self.start):
            return np.zeros(len(start), np.int64)
        if len(start) == 1 and start[0] <= end[0]:
            return np.array([intersection(self, IntervalSet(start, end)).length])
        passed = np.zeros(len(self.start) + 1, np.int64)
        (self.end - self.start).cumsum(out=passed[1:])
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
        last = np.maximum(self.start.searchsorted(times, "right") - 1, 0)
        start = self.start.take(last)
        part = np.minimum(np.maximum(times, start), self.end.take(last)) - start
        return passed.take(last) + part  # type: ignore[no-any-return]

    def _first(self, times: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the first interval that ends after each time, and whether there is one."""
        at = np.searchsorted(self.end, times, "right")
        return np.minimum(at, len(self.end) - 1), at < len(self.end)

    def _ends(self, start: NDArray[Any], end: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the first and the last interval that each row has a part in."""
        first, _ = self._first(start)
        last = np.maximum(np.searchsorted(self.start, end, "left") - 1, 0)
        return first, np.where(end > start, last, first)


# The selected intervals of time: which rows have a part in them, and which part.
#
# An NVTX range can have many instances, which nest, overlap, or lie on several threads. Each selects its own
# time for its process or its thread. For one thread the intervals are united, so that no time counts twice.


def united(start: NDArray[Any], end: NDArray[Any]) -> IntervalSet:
    """Return the union of intervals in any order. One of 0 ns stays if it touches no other."""
    order = np.argsort(start, kind="stable")
    start, reached = start[order], np.maximum.accumulate(end[order])
    first = np.append(True, start[1:] > reached[:-1])
    return IntervalSet(start[first], reached[np.append(first[1:], True)])


@dataclass(frozen=True, eq=False)
class Window:
    """The selected instances: their times in ns, and the thread and process each selects; MISSING: any.

    A process is a globalTid shifted right by PID_SHIFT, without the bits of the thread. ``first`` and
    ``last`` are the numbers of the selected instances of an NVTX range, ``total`` counts all of its name.
    """

    starts: NDArray[Any]
    ends: NDArray[Any]
    threads: NDArray[Any]
    processes: NDArray[Any]
    first: int = 0
    last: int = 0
    total: int = 0
    _united: dict[tuple[int, int], IntervalSet | None] = field(default_factory=dict, repr=False)

    @property
    def start_ns(self) -> int:
        """The start of the first instance in ns."""
        return int(self.starts.min())

    @property
    def end_ns(self) -> int:
        """The end of the last instance in ns."""
        return int(self.ends.max())

    @property
    def several(self) -> bool:
        """Whether more than one instance is selected."""
        return len(self.starts) > 1

    def selects_process(self, global_id: int) -> bool:
        """Return True if an instance selects times of this process."""
        return bool(one_of(self.processes, (MISSING, global_id >> PID_SHIFT)).any())

    def of_process(self, global_id: int) -> IntervalSet:
        """Return the intervals of a process; those of all if no instance selects this process."""
        return self._of(global_id >> PID_SHIFT, MISSING) or self._of(MISSING, MISSING)  # type: ignore[return-value]

    def of_thread(self, global_id: int) -> IntervalSet:
        """Return the intervals of a thread; those of all if no instance selects this thread."""
        return self._of(global_id >> PID_SHIFT, global_id) or self._of(MISSING, MISSING)  # type: ignore[return-value]

    def holding(self, events: Events, *, clip: bool) -> NDArray[Any]:
        """Mark the rows that are selected: with a part in an interval, or by nsys' rule if rows stay whole.

        ``events`` has start_ns and, where the events have them, end_ns, global_tid, global_pid, event_type.
        """
        start = events["start_ns"]
        end = _known_ends(events) if clip else events["end_ns"]
        marks = np.zeros(len(start), dtype=bool)
        for rows, intervals in self._by_owner(events):
            mark = intervals.holding if clip else intervals.overlapping
            marks[rows] = mark(start[rows], end[rows])
        return marks

    def crossing(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[np.bool_]:
        """Mark the spans of time that can have a selected row: those that touch an instance of any thread."""
        every = united(np.minimum(self.starts, self.ends), np.maximum(self.starts, self.ends))
        at = np.searchsorted(every.end, first)
        return (at < len(every.end)) & (every.start[np.minimum(at, len(every.end) - 1)] <= last)

    def clip(self, events: Events) -> Columns:
        """Return starts and ends clipped to the intervals; those of a row in several are the outer ones."""
        times = {name: events[name].copy() for name in ("start_ns", "end_ns") if name in events}
        for rows, intervals in self._by_owner(events):
            part = [values[rows] for values in times.values()]
            for values, clipped in zip(times.values(), intervals.clip(part[0], part[-1]), strict=False):
                values[rows] = clipped
        return times

    def clipped_durations(self, events: Events) -> NDArray[Any]:
        """Return the selected time of each clipped row in ns, without the time between instances."""
        time_ns: NDArray[Any] = events["end_ns"] - events["start_ns"]
        for rows, intervals in self._by_owner(events):
            time_ns[rows] = intervals.clipped_durations(events["start_ns"][rows], events["end_ns"][rows])
        return time_ns

    def _by_owner(self, events: Events) -> Iterator[tuple[NDArray[Any] | slice, IntervalSet]]:
        """Yield rows and their intervals. Rows of other processes and threads are in no interval."""
        ids = events.get("global_tid", events.get("global_pid"))
        everyone = self._of(MISSING, MISSING)
        if ids is None or (self.processes == MISSING).any() or not (ids != MISSING).any():
            yield slice(None), everyone  # type: ignore[misc]  # trimmed exports lack globalPid
            return
        owners, codes = np.unique(ids, return_inverse=True)
        rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        for owner, mine in zip(owners.tolist(), rows, strict=True):
            intervals = self._of(owner >> PID_SHIFT, owner if "global_tid" in events else MISSING)
            if owner != MISSING and intervals is not None:
                yield mine, intervals

    def _of(self, process: int, thread: int) -> IntervalSet | None:
        """Return the intervals of a process and a thread, MISSING for any; None if there is none."""
        key = process, thread
        if key not in self._united:
            mine = np.ones(len(self.starts), dtype=bool)
            if process != MISSING:
                mine &= one_of(self.processes, (MISSING, process))
            if thread != MISSING:
                mine &= one_of(self.threads, (MISSING, thread))
            self._united[key] = united(self.starts[mine], self.ends[mine]) if mine.any() else None
        return self._united[key]


def _known_ends(events: Events) -> NDArray[Any]:
    """Return the ends of rows; an NVTX range that never ended lasts to the capture's end."""
    end = events.get("end_ns", events["start_ns"])
    if "event_type" in events:
        ranges = one_of(events["event_type"], (*NVTX_PUSH_POP, *NVTX_START_END))
        end = np.where(ranges & (end == MISSING), MOST, end)
    return end


def whole_time(start_ns: int = LEAST, end_ns: int = MOST) -> Window:
    """Return the window of one interval that selects all processes and threads."""
    start, end, anyone = (np.array([value]) for value in (start_ns, end_ns, MISSING))
    return Window(start, end, anyone, anyone)


NOTHING = IntervalSet(*(np.empty(0, np.int64),) * 2)


# Compute unions, intersections, gaps and overlaps of time intervals [start, end) in ns.
#
# Starts and ends are int64 arrays in any order. Intervals may overlap, touch and be empty, but must not end
# before they start.


def union(start: NDArray[Any], end: NDArray[Any]) -> IntervalSet:
    """Return the time covered by at least one interval."""
    if not len(start):
        return NOTHING
    filled = start < end
    if not filled.all():
        start, end = start.compress(filled), end.compress(filled)
    elif (start[1:] > end[:-1]).all():
        return IntervalSet(start, end)
    if (start[1:] < start[:-1]).any():  # events mostly come in order
        order = np.argsort(start, kind="stable")
        start, end = start.take(order), end.take(order)
    if not len(start):
        return NOTHING
    reached = np.maximum.accumulate(end)
    apart = start[1:] > reached[:-1]
    if apart.all():
        return IntervalSet(start, end)
    first = np.concatenate(([True], apart))  # of each piece
    return IntervalSet(start.compress(first), reached.compress(np.concatenate((apart, [True]))))


def intersection(left: IntervalSet, right: IntervalSet) -> IntervalSet:
    """Return the time covered by both."""
    few, many = (left, right) if len(left.start) <= len(right.start) else (right, left)
    if not len(few.start):
        return NOTHING
    if len(few.start) == 1:  # often the time judged, which holds most of the other
        first, last = many.end.searchsorted(few.start, "right"), many.start.searchsorted(few.end)
        within = slice(int(first[0]), int(last[0]))
        return _cut(many.start[within], many.end[within], few)
    if len(many.start) <= _ALIKE * len(few.start):
        start, end = _sorted_ends(left, right)
        # Two are open from the n + 1-th start to the n-th end, if that is later.
        return _filled(start[1:], end[:-1])
    first = np.searchsorted(many.end, few.start, "right")
    count = np.maximum(np.searchsorted(many.start, few.end) - first, 0)  # of those that meet each of the few
    row = np.repeat(np.arange(len(count)), count)
    other = np.arange(len(row)) + np.repeat(first - (np.cumsum(count) - count), count)
    start = np.maximum(few.start.take(row), many.start.take(other))
    end = np.minimum(few.end.take(row), many.end.take(other))
    return _filled(start, end)


def _filled(start: NDArray[Any], end: NDArray[Any]) -> IntervalSet:
    """Return those of these intervals that are not empty."""
    filled = start < end
    if filled.all():
        return IntervalSet(start, end)
    return IntervalSet(start.compress(filled), end.compress(filled))


def _sorted_ends(*covers: IntervalSet) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the starts of all covers in order, and their ends: sorted parts are merged quickly."""
    start, end = (np.concatenate(times) for times in zip(*covers, strict=True))
    start.sort(kind="stable")
    end.sort(kind="stable")
    return start, end


def _cut(start: NDArray[Any], end: NDArray[Any], within: IntervalSet) -> IntervalSet:
    """Return intervals of a cover that all meet a single one, cut at its ends."""
    if len(start) and start[0] < within.start[0]:
        start = np.concatenate((within.start, start[1:]))
    if len(end) and end[-1] > within.end[0]:
        end = np.concatenate((end[:-1], within.end))
    return IntervalSet(start, end)


def difference(cover: IntervalSet, taken: IntervalSet) -> IntervalSet:
    """Return the part of a cover that the other does not cover."""
    if not len(taken.start):
        return cover
    starts, ends = np.concatenate(([LEAST], taken.end)), np.concatenate((taken.start, [MOST]))
    return intersection(cover, IntervalSet(starts, ends))


def joined(*covers: IntervalSet) -> IntervalSet:
    """Return the time that at least one cover covers."""
    start, end = _sorted_ends(*covers)
    # The n-th end precedes the next start only if the first n intervals are over: then there is a gap.
    edges = np.flatnonzero(start[1:] > end[:-1])
    if len(edges) + 1 < len(start):
        start, end = start.take(np.append(0, edges + 1)), end.take(np.append(edges, len(end) - 1))
    return _filled(start, end)


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
