"""The selected intervals of time: which rows have a part in them, and which part.

An NVTX range can have many instances, which nest, overlap, or lie on several threads. Each selects its own
time for its process or its thread. For one thread the intervals are united, so that no time counts twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base.constants import MISSING
from nsyswrap.capture.intervals import IntervalSet
from nsyswrap.capture.schema import NVTX_PUSH_POP, NVTX_START_END, PID_SHIFT
from nsyswrap.capture.stream import Columns

Events = Mapping[str, NDArray[Any]]

LEAST, MOST = -(2**63), 2**63 - 1  # ns: the ends of a window that are not given


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
        return bool(np.isin(self.processes, (MISSING, global_id >> PID_SHIFT)).any())

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
                mine &= np.isin(self.processes, (MISSING, process))
            if thread != MISSING:
                mine &= np.isin(self.threads, (MISSING, thread))
            self._united[key] = united(self.starts[mine], self.ends[mine]) if mine.any() else None
        return self._united[key]


def _known_ends(events: Events) -> NDArray[Any]:
    """Return the ends of rows; an NVTX range that never ended lasts to the capture's end."""
    end = events.get("end_ns", events["start_ns"])
    if "event_type" in events:
        ranges = np.isin(events["event_type"], (*NVTX_PUSH_POP, *NVTX_START_END))
        end = np.where(ranges & (end == MISSING), MOST, end)
    return end


def whole_time(start_ns: int = LEAST, end_ns: int = MOST) -> Window:
    """Return the window of one interval that selects all processes and threads."""
    start, end, anyone = (np.array([value]) for value in (start_ns, end_ns, MISSING))
    return Window(start, end, anyone, anyone)
