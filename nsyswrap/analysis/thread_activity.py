"""Tell what host threads were doing at each time: in which kind of CUDA call, or in none."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, check_pairs, rows_by
from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.names import CLASSES, OTHER, by_thread, call_classes
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import QUEUE_FULL, SPANS

# If several hold at once, the first counts: calls nest, and time counts once.
ACTIVITIES = ("profiler", "load", "allocate", "synchronise", "launch", "copy", "call", "host")
_HOST = ACTIVITIES.index("host")
_NONE = np.empty(0, np.int32)


class ActivityPieces(NamedTuple):
    """Parts of intervals in order: the position of the interval, start, end, and number in ACTIVITIES."""

    interval: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    activity: NDArray[Any]


class _Course(NamedTuple):
    """What a thread did from each time in ns to the next; it begins outside all calls, long before time 0."""

    since_ns: NDArray[Any]
    activity: NDArray[np.int8]


class ThreadActivity:
    """What host threads did, kept as long as this object, as it takes much memory."""

    def __init__(self, whole: Capture) -> None:
        """Take the capture with nothing left out."""
        self.whole = whole
        self._courses: dict[int, _Course] = {}

    def segments(self, thread: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> ActivityPieces:
        """Split intervals of threads, in ns, where the activity of their thread changes."""
        rows_of = rows_by(thread)
        if len(rows_of) == 1:
            return _split(self._course(int(thread[0])), start, end)
        parts = [ActivityPieces(*(np.empty(0, np.int64),) * 3, np.empty(0, np.int8))]
        for (one,), rows in rows_of.items():
            interval, *part = _split(self._course(one), start[rows], end[rows])
            parts.append(ActivityPieces(rows[interval], *part))
        every = ActivityPieces(*map(np.concatenate, zip(*parts, strict=True)))
        del parts
        order = np.argsort(every.interval, kind="stable")
        return ActivityPieces(*(part[order] for part in every))

    def _course(self, thread: int) -> _Course:
        if thread not in self._courses:
            self._courses[thread] = _course(self.whole, thread)
        return self._courses[thread]


def _split(course: _Course, start: NDArray[Any], end: NDArray[Any]) -> ActivityPieces:
    since, activity = course
    edge = np.searchsorted(since, start, "right") - 1  # first the one before each interval
    count = np.where(end > start, np.searchsorted(since, end, "left") - edge, 0)
    check_pairs(int(count.sum()), len(start) + len(since), "gaps between GPU operations and calls in them")
    if (count == 1).all():
        return ActivityPieces(np.arange(len(start)), start, end, activity[edge])
    filled = np.flatnonzero(count)
    behind = np.cumsum(count)
    edge = np.repeat(edge - (behind - count), count)
    edge += np.arange(len(edge))
    begins, until = since[edge], since.take(edge + 1, mode="clip")
    begins[(behind - count)[filled]], until[behind[filled] - 1] = start[filled], end[filled]
    return ActivityPieces(np.repeat(np.arange(len(start)), count), begins, until, activity[edge])


def _course(whole: Capture, thread: int) -> _Course:
    """Return what a thread of the whole capture did."""
    parts = [
        (activity[rows], *(whole.columns(kind, field)[field][rows] for field in SPANS))
        for kind, activity in _activities(whole)
        for rows in [by_thread(whole, kind).get(thread, _NONE)]
    ]
    parts = [part for part in parts if len(part[0])] or parts[:1]
    activity, start, end = map(np.concatenate, zip(*parts, strict=True)) if len(parts) > 1 else parts[0]
    if len(parts) > 1 or not (end > start).all():
        order = np.flatnonzero(end > start)
        order = order[np.argsort(start[order], kind="stable")]
        activity, start, end = activity[order], start[order], end[order]
    apart = start[1:] >= np.maximum.accumulate(end)[:-1]
    alone = np.append(True, apart) & np.append(apart, True)
    if alone.all():
        since = np.stack((start, end), axis=1).ravel()
        what = np.stack((activity, np.full_like(activity, _HOST)), axis=1).ravel()
    else:
        since, what = _nested(activity[~alone], start[~alone], end[~alone])
        free = activity[alone]
        # Where one ends and another begins, the last of these counts.
        since = np.concatenate((end[alone], since, start[alone]))
        what = np.concatenate((np.full_like(free, _HOST), what, free))
        order = np.argsort(since, kind="stable")
        since, what = since[order], what[order]
    final = np.append(since[1:] != since[:-1], True)[: len(since)]
    if not final.all():
        since, what = since[final], what[final]
    changes = np.diff(what, prepend=np.int8(_HOST)) != 0
    return _Course(
        np.append(np.iinfo(np.int64).min, since[changes]), np.append(np.int8(_HOST), what[changes])
    )


def _nested(
    activity: NDArray[Any], start: NDArray[Any], end: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.int8]]:
    """Return the times at which activities that lie inside others change, and what begins there."""
    covers = [union(start[mine], end[mine]) for mine in (activity == i for i in range(_HOST))]
    edges = ascending(np.concatenate([edge for cover in covers for edge in cover]))
    what = np.full(len(edges), _HOST, np.int8)
    for i in reversed(range(_HOST)):
        what[covers[i].holds(edges)] = i
    return edges, what


@per_capture
def _activities(whole: Capture) -> tuple[tuple[str, NDArray[np.int8]], ...]:
    """Return the kinds of event that activities are made of, and the number in ACTIVITIES of each event."""
    of_class = np.array([ACTIVITIES.index("call" if name == OTHER else name) for name in CLASSES], np.int8)
    parts = [("api", of_class[call_classes(whole)])]
    if count := whole.count("overhead"):
        parts.append(("overhead", np.full(count, ACTIVITIES.index("profiler"), np.int8)))
    if whole.has("cuda_overhead"):  # compiling and loading, which CUDA also does without nsys
        waits = whole.columns("cuda_overhead", "overhead_type")["overhead_type"] == QUEUE_FULL
        of_type = np.array([ACTIVITIES.index(name) for name in ("load", "launch")], np.int8)
        parts.append(("cuda_overhead", of_type[waits.astype(np.int8)]))
    return tuple(parts)
