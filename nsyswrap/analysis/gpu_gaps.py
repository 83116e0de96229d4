"""Find the gaps in which a process ran nothing on a device, and what the host did in them.

A gap ends with an operation, whose launch call was made by one thread. Before that call, the thread was in
synchronizing, allocating, loading or other calls, or outside all calls. From the start of that call to the
start of the operation, the launch was under way. If the call returned before the gap began, or long before
the operation started, the operation was queued: it waited for another device, another process, or the GPU
itself. Migrations of unified memory have no launch call: page faults or prefetches cause them. After the last
operation of all, the thread that launched it tells the cause.

A gap whose launch call is known is cut where the call begins and returns, both clipped to the gap::

    start_ns               begun              returned              end_ns
        | what the thread did | "launch" or "copy" | "queued", or the same |

``segments`` has the pieces by gap, then by time. Those of a gap have no holes and no length of 0: the first
begins with the gap, the last ends with it, so the causes add up to its duration. Two in a row can have the
same cause. A gap without a known thread is one piece. Positions are those of ``analysis.gpu_operations`` in
the whole capture for ``before`` and ``after``, and positions of gaps for ``segments.gap``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, check_pairs, largest_first, median, rows_by
from nsyswrap.analysis.gpu_operations import (
    GpuOperations,
    gpu_operations_of,
    positions_of,
    previous_ends,
    window,
    windows,
)
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.names import CLASSES, LAUNCH, OTHER, by_thread, call_classes
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import IntervalSet, gaps, union
from nsyswrap.capture.per_capture import known, per_capture
from nsyswrap.capture.schema import QUEUE_FULL, SPANS
from nsyswrap.capture.selection import EVERYTHING
from nsyswrap.capture.stream import BLOCK_ROWS, in_blocks, narrow, one_of

# If several hold at once, the first counts: calls nest, and time counts once.
ACTIVITIES = ("profiler", "load", "allocate", "synchronise", "launch", "copy", "call", "host")
_HOST = ACTIVITIES.index("host")
_NONE = np.empty(0, np.int32)


# Tell what host threads were doing at each time: in which kind of CUDA call, or in none.


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

    def __init__(self, whole: Capture, window: tuple[int, int]) -> None:
        """Take the capture with nothing left out, and the times between which all intervals lie."""
        self.whole, self._window = whole, window
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
        return ActivityPieces(*(part.take(order) for part in every))

    def _course(self, thread: int) -> _Course:
        if thread not in self._courses:
            self._courses[thread] = _course(self.whole, thread, self._window)
        return self._courses[thread]


def _split(course: _Course, start: NDArray[Any], end: NDArray[Any]) -> ActivityPieces:
    since, activity = course
    edge = np.searchsorted(since, start, "right") - 1  # first the one before each interval
    count = np.where(end > start, np.searchsorted(since, end, "left") - edge, 0)
    check_pairs(int(count.sum()), len(start) + len(since), "gaps between GPU operations and calls in them")
    if (count == 1).all():
        return ActivityPieces(np.arange(len(start)), start, end, activity.take(edge))
    filled = np.flatnonzero(count)
    behind = np.cumsum(count)
    edge = np.repeat(edge - (behind - count), count)
    edge += np.arange(len(edge))
    begins, until = since.take(edge), since.take(edge + 1, mode="clip")
    begins[(behind - count)[filled]], until[behind[filled] - 1] = start[filled], end[filled]
    return ActivityPieces(np.repeat(np.arange(len(start)), count), begins, until, activity.take(edge))


def _course(whole: Capture, thread: int, window: tuple[int, int]) -> _Course:
    """Return what a thread of the whole capture did in a window."""
    parts = []
    for kind, activity in _activities(whole):
        rows = by_thread(whole, kind).get(thread, _NONE)
        start, end = (column.take(rows) for column in whole.columns(kind, *SPANS).values())
        near = (end > window[0]) & (start < window[1])
        parts.append(tuple(values.compress(near) for values in (activity.take(rows), start, end)))
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


Arrays = dict[str, NDArray[Any]]


# If several causes hold at once, the first counts. "migration" is of the pages of unified memory; "unknown":
# no recorded call launched the next operation.
CAUSES = (*ACTIVITIES, "queued", "migration", "unknown")
_CAUSE = {cause: number for number, cause in enumerate(CAUSES)}
_GAP = {
    **dict.fromkeys(("start_ns", "end_ns"), np.int64),
    **dict.fromkeys(("before", "after", "launching_ns"), np.int32),
    "thread": np.int64,
}
_SEGMENT = {"gap": np.int32, "start_ns": np.int64, "end_ns": np.int64, "cause": np.int8}
_COUNT_IN_LAUNCH = 2  # the first two activities count even during a launch
# On an idle GPU an operation starts soon after its call returned. A multiple of the median launch latency of
# repeated launches, or of all operations if no launch is repeated.
_LATENCY_RATIO = 3
_FEW = 0.03  # of the gaps: the segments of so many are looked up; for more, all segments are looked at


class GapPieces(NamedTuple):
    """Parts of gaps with one cause each: the position of the gap, start, end, and number in CAUSES."""

    gap: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    cause: NDArray[Any]


@dataclass(frozen=True)
class Gaps:
    """One entry per gap, by process and device, then by time; times in ns.

    ``owners`` has the global process id and the device id of each range of gaps, and where the range ends.
    ``before`` and ``after`` are the positions of the operations on both sides, selected or not, in
    ``operations`` (all of the whole capture); -1 without one. ``thread`` made the call that launched
    ``after``, MISSING if unknown. ``launching_ns`` is the time in which that call was under way, or the
    operation on its way. ``segments`` splits the gaps by cause.
    """

    operations: GpuOperations
    owners: Sequence[tuple[int, int, int]]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    before: NDArray[Any]
    after: NDArray[Any]
    thread: NDArray[Any]
    launching_ns: NDArray[Any]
    segments: GapPieces

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def duration_ns(self) -> NDArray[Any]:
        """The duration of each gap in ns."""
        return self.end_ns - self.start_ns  # type: ignore[no-any-return]

    @cached_property
    def parts(self) -> Mapping[str, NDArray[Any]]:
        """The time of each of CAUSES in each gap, in ns; the causes add up to the gap."""
        return _Parts(self)

    def parts_of(self, rows: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
        """Return the time of each of CAUSES in the gaps at these positions, in ns."""
        gap, start, end, cause = self.segments
        place = np.full(len(self), -1, np.int32)
        place[rows] = np.arange(len(rows))
        mine = np.flatnonzero(place[gap] >= 0) if len(rows) < len(self) else slice(None)
        gap, length, cause = place[gap[mine]], end[mine] - start[mine], cause[mine]
        # Few causes occur: the others share this.
        parts = dict.fromkeys(CAUSES, np.zeros(len(rows), np.int64))
        for number, name in enumerate(CAUSES):
            which = np.flatnonzero(cause == number)
            if len(which):
                parts[name] = np.zeros(len(rows), np.int64)
                np.add.at(parts[name], gap[which], length[which])
        return parts

    @property
    def global_pid(self) -> NDArray[Any]:
        """The global id of the process of each gap."""
        return self._of_owner(0)

    @property
    def device_id(self) -> NDArray[Any]:
        """The device of each gap."""
        return self._of_owner(1)

    def _of_owner(self, field: int) -> NDArray[Any]:
        ids = np.array([owner[field] for owner in self.owners], np.int64)
        ends: NDArray[Any] = np.array([end for *_, end in self.owners], np.int64)
        return np.repeat(ids, np.diff(ends, prepend=0))

    def rows_of(self, global_pid: int, device_id: int) -> tuple[int, int]:
        """Return the position of the first gap of a process on a device, and that behind the last one."""
        first = 0
        for *owner, end in self.owners:
            if owner == [global_pid, device_id]:
                return first, end
            first = end
        return 0, 0

    @cached_property
    def segments_of(self) -> Mapping[str, NDArray[Any]]:
        """The positions of the segments of each of CAUSES."""
        rows = {c: np.flatnonzero(self.segments.cause == number) for number, c in enumerate(CAUSES)}
        return {cause: mine.astype(np.int32) for cause, mine in rows.items()}

    def segments_in(self, marks: NDArray[Any], causes: Iterable[str]) -> NDArray[Any]:
        """Return the positions of the segments of these causes in the marked gaps, ascending."""
        gap = self.segments.gap
        chosen = np.flatnonzero(marks).astype(gap.dtype)  # of another type numpy would convert all of ``gap``
        if len(chosen) > _FEW * len(marks):
            parts = [self.segments_of[cause] for cause in causes]
            if len(chosen) < len(marks):
                parts = [rows.compress(marks.take(gap.take(rows))) for rows in parts]
            return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
        first, end = (np.searchsorted(gap, chosen, side) for side in ("left", "right"))
        count = end - first
        rows = np.repeat(end - np.cumsum(count), count) + np.arange(count.sum())
        which = one_of(self.segments.cause[rows], [_CAUSE[cause] for cause in causes])
        return rows.compress(which)

    @property
    def spent_ns(self) -> Mapping[str, int]:
        """The time of each of CAUSES in all gaps, in ns."""
        _, start, end, cause = self.segments
        sums = np.zeros(len(CAUSES), np.int64)
        for first in range(0, len(cause), BLOCK_ROWS):
            rows = slice(first, first + BLOCK_ROWS)
            np.add.at(sums, cause[rows], end[rows] - start[rows])
        return dict(zip(CAUSES, sums.tolist(), strict=True))

    def longest(self, count: int) -> NDArray[Any]:
        """Return the positions of the ``count`` longest gaps, the longest first; equal ones in order."""
        return largest_first(narrow(self.duration_ns), count)

    @property
    def call(self) -> NDArray[Any]:
        """Position of the call that launched the operation after each gap; -1 if none is recorded."""
        return _at(self.operations.call, self.after, -1)


class _Parts(Mapping[str, NDArray[Any]]):
    """The time of each of CAUSES in each gap, computed on first use: most uses need three of the causes."""

    def __init__(self, gaps: Gaps) -> None:
        self._rows, self._segments = len(gaps), gaps.segments
        self._known: Arrays = {}

    def __getitem__(self, cause: str) -> NDArray[Any]:
        if cause not in self._known:
            gap, start, end, number = self._segments
            which = np.flatnonzero(number == _CAUSE[cause])
            times = np.zeros(self._rows, np.int64)
            # numpy adds at positions of eight bytes in a fraction of the time.
            np.add.at(times, gap.take(which).astype(np.intp), end.take(which) - start.take(which))
            self._known[cause] = times
        return self._known[cause]

    def __iter__(self) -> Iterator[str]:
        return iter(CAUSES)

    def __len__(self) -> int:
        return len(CAUSES)


@per_capture
def gaps_of(capture: Capture) -> Gaps:
    """Return the gaps in the window of each process on each device; whole-graph executions count as busy.

    Where those of the whole are known, those of a process are a part of them.
    """
    if (of_one := _of_process(capture)) is not None:
        return of_one
    operations = gpu_operations_of(capture.whole)
    gap: list[Arrays] = []
    segments: list[Arrays] = []
    owners: list[tuple[int, int, int]] = []
    count = 0
    ends = _outer_ends(capture)
    threads = ThreadActivity(capture.whole, ends)
    for process, device, rows in gpu_operations_of(capture).by_device():
        if owners and owners[-1][0] != process:
            threads = ThreadActivity(capture.whole, ends)  # other processes have other threads
        part = _of_device(capture, rows, operations.rows_of[process, device])
        gap.append(part | _explained(threads, operations, part, segments, count))
        del part  # it would stay in memory while the columns are joined
        count += len(gap[-1]["end_ns"])
        owners.append((process, device, count))
    del threads  # joining needs the memory
    return Gaps(operations, owners, **_joined(gap, _GAP), segments=GapPieces(**_joined(segments, _SEGMENT)))


def _of_process(capture: Capture) -> Gaps | None:
    """Return the gaps of the one process that is selected if those of the whole are known, else None."""
    selection = capture.view.selection
    if len(selection.processes) != 1 or replace(selection, processes=()) != EVERYTHING:
        return None
    every = known(capture.whole, gaps_of)
    if every is None:
        return None
    mine = gpu_operations_of(capture).processes
    ends = [end for *_, end in every.owners]
    here = [place for place, (process, *_) in enumerate(every.owners) if process in mine]
    if not here or here[-1] - here[0] >= len(here):  # no work, or processes of one number in several machines
        return None
    rows = slice(ends[here[0] - 1] if here[0] else 0, ends[here[-1]])
    gap = every.segments.gap
    pieces = slice(*np.searchsorted(gap, np.array([rows.start, rows.stop], gap.dtype)).tolist())
    return Gaps(
        every.operations,
        [(*every.owners[place][:2], ends[place] - rows.start) for place in here],
        **{name: getattr(every, name)[rows] for name in _GAP},
        segments=GapPieces(
            gap[pieces] - gap.dtype.type(rows.start), *(part[pieces] for part in every.segments[1:])
        ),
    )


def _outer_ends(capture: Capture) -> tuple[int, int]:
    """Return times before and after all gaps of the view: operations that are not cut can lie outside it."""
    start, end = capture.window.start_ns, capture.window.end_ns
    operations = gpu_operations_of(capture)
    first, last = operations.start_ns.min(initial=start), operations.end_ns.max(initial=end)
    return int(first), int(last)


def _of_device(capture: Capture, rows: NDArray[Any], every: NDArray[Any]) -> Arrays:
    """Return the gaps between the selected operations of a device; ``every`` are all its operations."""
    mine = gpu_operations_of(capture).of(rows)
    first, last = ([end] for end in window(capture, mine))
    start, end = (np.concatenate((first, times, last)) for times in (mine.start_ns, mine.end_ns))
    end = np.maximum(start, end)  # of damaged times
    beside = np.concatenate(([-1], positions_of(capture)[rows], [-1])).astype(np.int32)
    left, right = gaps(start, end)
    part = {"start_ns": end[left], "end_ns": start[right], "before": beside[left], "after": beside[right]}
    operations = gpu_operations_of(capture.whole)  # unselected ones are before the first gap, after the last
    for i in np.flatnonzero(part["before"] < 0):
        earlier = every[operations.end_ns[every] <= part["start_ns"][i]][::-1]
        part["before"][i] = earlier[operations.end_ns[earlier].argmax()] if len(earlier) else -1
    for i in np.flatnonzero(part["after"] < 0):
        later = every[operations.start_ns[every] >= part["end_ns"][i]]
        part["after"][i] = later[0] if len(later) else -1
    return _in_windows(part, windows(capture, mine))


def _in_windows(gap: Arrays, cover: IntervalSet) -> Arrays:
    """Cut gaps where they cross the time between selected NVTX ranges."""
    if len(cover.start) == 1:
        return gap
    row, start, end = cover.split(gap["start_ns"], gap["end_ns"])
    inside = np.flatnonzero(end > start)
    cut = {name: values[row[inside]] for name, values in gap.items()}
    return {**cut, "start_ns": start[inside], "end_ns": end[inside]}


def _explained(
    threads: ThreadActivity, operations: GpuOperations, gap: Arrays, segments: list[Arrays], first: int
) -> Arrays:
    """Return the thread of each gap and its launching time. Add the segments; ``first`` is the first gap.

    Blocks of gaps are explained one after the other, as that takes many intermediate arrays.
    """
    rows = len(gap["start_ns"])
    made = 0

    def explain(block: Arrays) -> Arrays:
        nonlocal made
        columns, found = _explained_block(threads, operations, block)
        segments.append({**found._asdict(), "gap": block["number"][found.gap]})
        made += len(found.gap)
        check_pairs(made, rows + threads.whole.count("api"), "gaps between GPU operations and calls in them")
        return columns

    return in_blocks({**gap, "number": np.arange(first, first + rows, dtype=np.int32)}, explain)


def _joined(parts: list[Arrays], columns: Mapping[str, type]) -> Arrays:
    """Join columns, if there are any; the parts of each are freed before those of the next are joined."""
    if not parts:
        return {name: np.empty(0, kind) for name, kind in columns.items()}
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part.pop(name) for part in parts]) for name in columns}


def _explained_block(
    threads: ThreadActivity, operations: GpuOperations, gap: Arrays
) -> tuple[Arrays, GapPieces]:
    """Return the threads and launching times of gaps, and their segments by position in the block."""
    whole = threads.whole
    start, end, after = gap["start_ns"], gap["end_ns"], gap["after"]
    thread = np.full(len(start), MISSING)
    begun, returned = end.copy(), end.copy()
    call = _at(operations.call, after, -1)
    before = _at(operations.call, gap["before"], -1)
    last = np.flatnonzero((after < 0) & (before >= 0))
    known = np.flatnonzero(call >= 0)
    kind = np.full(len(start), _CAUSE["unknown"], np.int8)
    queued = np.full_like(kind, _CAUSE["unknown"])
    kind[_at(operations.migration, after, 0)] = _CAUSE["migration"]
    if len(known) or len(last):
        api = whole.columns("api", "start_ns", "end_ns", "global_tid")
        thread[last] = api["global_tid"].take(before.take(last))
        by, ended = (positions.take(known).astype(np.intp) for positions in (call, after))
        thread[known] = api["global_tid"].take(by)
        until, return_ns = end.take(known), api["end_ns"].take(by)
        begun_ns = np.clip(api["start_ns"].take(by), start.take(known), until)
        begun[known] = begun_ns
        returned[known] = np.clip(return_ns, begun_ns, until)
        cause = _closing_cause(whole, operations, ended)
        kind[known] = cause
        waited = operations.start_ns.take(ended) - return_ns > longest_latency(whole)
        # A window may cut the gap: then the gap began when the operation before it ended.
        begin = _at(operations.end_ns, gap["before"].take(known), MISSING)
        queued[known] = np.where((return_ns <= begin) | waited, _CAUSE["queued"], cause)
    segments = _segments(threads, (start, begun, returned, end), thread, (kind, queued))
    under_way = end - begun - np.where(queued == _CAUSE["queued"], end - returned, 0)
    return {"thread": thread, "launching_ns": narrow(np.where(call >= 0, under_way, 0))}, segments


def _at(values: NDArray[Any], positions: NDArray[Any], missing: int) -> NDArray[Any]:
    """Return the values at these positions, and ``missing`` for -1: no operation on that side of a gap."""
    found: NDArray[Any] = values.take(positions)
    found[positions < 0] = missing
    return found


def _closing_cause(whole: Capture, operations: GpuOperations, after: NDArray[Any]) -> NDArray[Any]:
    """Return the cause while the call that launches each operation is under way."""
    # A launch call can also start copies, which are nodes of its graph.
    launched = call_classes(whole).take(operations.call.take(after)) == CLASSES.index(LAUNCH)
    launches = operations.computes.take(after) | launched
    return np.where(launches, _CAUSE["launch"], _CAUSE["copy"])


@per_capture
def longest_latency(whole: Capture) -> float:
    """Return the longest time from a call's return to its operation that is the launch itself, in ns."""
    launches = launches_of(whole)
    latency_ns = launches.latency_ns.compress(launches.uncontended & ~launches.first)
    if not len(latency_ns):
        operations = gpu_operations_of(whole)
        launched = np.flatnonzero(operations.call >= 0)
        call_ns = whole.columns("api", "start_ns")["start_ns"][operations.call[launched]]
        idle = previous_ends(operations)[launched] <= call_ns
        latency_ns = (operations.start_ns[launched] - call_ns)[idle]
    return _LATENCY_RATIO * median(latency_ns) if len(latency_ns) else 0.0


def _segments(
    threads: ThreadActivity,
    times: tuple[NDArray[Any], ...],
    thread: NDArray[Any],
    causes: tuple[NDArray[Any], NDArray[Any]],
) -> GapPieces:
    """Split gaps by cause; ``times`` are start, launch begun, launch returned and end of each.

    ``causes`` are those during the launch call and after it, for gaps that a recorded call ended.
    """
    start, begun, returned, end = times
    kind, queued = causes
    unknown = np.flatnonzero(thread == MISSING)
    parts = [GapPieces(unknown, start[unknown], end[unknown], kind[unknown])]
    if len(unknown) < len(thread):
        known = np.flatnonzero(thread != MISSING)
        if len(unknown):
            thread, start, begun, returned, kind = (
                part.take(known) for part in (thread, start, begun, returned, kind)
            )
        gap, begins, ends, number = _parted(threads.segments(thread, start, returned), begun)
        in_launch = (number >= _COUNT_IN_LAUNCH) & (begins >= begun.take(gap))
        cause = np.where(in_launch, kind.take(gap), number)
        parts.append(GapPieces(known.take(gap), begins, ends, cause))
        rest = np.flatnonzero(returned < end[known])
        parts.append(GapPieces(known[rest], returned[rest], end[known[rest]], queued[known[rest]]))
    every = GapPieces(*map(np.concatenate, zip(*parts, strict=True)))
    if (every.gap[1:] >= every.gap[:-1]).all():
        return every
    order = np.argsort(every.gap, kind="stable")  # the parts of a gap are in order of time
    return GapPieces(*(part.take(order) for part in every))


def _parted(parts: ActivityPieces, begun: NDArray[Any]) -> ActivityPieces:
    """Part what a thread did where the call that launched begins: it may be more of the same."""
    launch = begun.take(parts.interval)
    across = np.flatnonzero((parts.start_ns < launch) & (launch < parts.end_ns))
    if not len(across):
        return parts
    interval, start, end, activity = (np.insert(part, across, part[across]) for part in parts)
    first = across + np.arange(len(across))
    end[first] = start[first + 1] = launch[across]
    return ActivityPieces(interval, start, end, activity)
