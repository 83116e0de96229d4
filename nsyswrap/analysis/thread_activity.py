"""Tell what host threads were doing at each time: in which kind of CUDA call, or in none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.api_call_kinds import CLASSES, OTHER, call_classes
from nsyswrap.analysis.arrays.groups import MOST, check_pairs, repeated
from nsyswrap.analysis.arrays.intervals import union

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

# If several hold at once, the first counts: calls nest, and time counts once.
ACTIVITIES = ("profiler", "load", "allocate", "synchronise", "launch", "copy", "call", "host")
_HOST = ACTIVITIES.index("host")
_QUEUE_FULL = 8  # overheadType of a launch that waits for room in the queue


class Segments(NamedTuple):
    """Parts of intervals in order: the position of the interval, start, end, and number in ACTIVITIES."""

    interval: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    activity: NDArray[Any]


class ThreadActivity:
    """The activities of threads over time, with the threads one after another on one axis."""

    def __init__(self, whole: Capture, threads: NDArray[Any], times: tuple[int, int]) -> None:
        """Take the distinct threads, ascending, and the first and last time that will be asked for."""
        activity, active, start, end = _activities(whole)
        rows = np.flatnonzero(np.isin(active, threads))
        self._threads = threads
        self._low, self._high = times
        if (len(threads) + 1) * (self._high - self._low + 2) > MOST:
            raise OverflowError
        number = np.searchsorted(threads, active[rows])
        start, end = (self._place(times[rows], number) for times in (start, end))
        covers = [union(start[mine], end[mine]) for mine in (activity[rows] == i for i in range(_HOST))]
        edges = np.sort(np.concatenate([edge for cover in covers for edge in cover]))
        edges = edges[np.diff(edges, prepend=-1) > 0]  # several times as fast as np.unique
        activities = np.full(len(edges), _HOST)
        for i in reversed(range(_HOST)):
            activities[covers[i].holds(edges)] = i
        self._edges = np.concatenate(([-1], edges))
        self._activities = np.concatenate(([_HOST], activities))

    def _place(self, times: NDArray[Any], number: NDArray[Any]) -> NDArray[Any]:
        length = self._high - self._low + 2  # keeps threads apart
        return np.clip(times, self._low, self._high) - self._low + number * length  # type: ignore[no-any-return]

    def segments(self, thread: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> Segments:
        """Split intervals of threads where the thread's activity changes."""
        number = np.searchsorted(self._threads, thread)
        begins, ends = (self._place(times, number) for times in (start, end))
        first = np.searchsorted(self._edges, begins, "right") - 1
        count = np.where(ends > begins, np.searchsorted(self._edges, ends, "left") - first, 0)
        check_pairs(
            int(count.sum()), len(start) + len(self._edges), "gaps between GPU operations and calls in them"
        )
        interval, within = repeated(count)
        edge = first[interval] + within
        until = np.append(self._edges, self._edges[-1:])[edge + 1]
        last = within == count[interval] - 1
        behind = (start - begins)[interval]
        return Segments(
            interval,
            np.where(within == 0, start[interval], self._edges[edge] + behind),
            np.where(last, end[interval], until + behind),
            self._activities[edge],
        )


def _activities(whole: Capture) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the number in ACTIVITIES, the thread, the start and the end of each activity."""
    of_class = np.array([ACTIVITIES.index("call" if name == OTHER else name) for name in CLASSES])
    fields = ("global_tid", "start_ns", "end_ns")
    parts = [(of_class[call_classes(whole)], whole.columns("api", *fields))]
    if whole.has("overhead"):
        events = whole.columns("overhead", *fields)
        parts.append((np.full(whole.count("overhead"), ACTIVITIES.index("profiler")), events))
    if whole.has("cuda_overhead"):  # compiling and loading, which CUDA also does without nsys
        events = whole.columns("cuda_overhead", *fields, "overhead_type")
        waits = events["overhead_type"] == _QUEUE_FULL
        parts.append((np.where(waits, *map(ACTIVITIES.index, ("launch", "load"))), events))
    activities = np.concatenate([activity for activity, _ in parts])
    thread, start, end = (np.concatenate([events[field] for _, events in parts]) for field in fields)
    return activities, thread, start, end
