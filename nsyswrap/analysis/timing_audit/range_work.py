"""Tell the GPU work of an NVTX range from earlier and other work.

Own work was started inside the range, by calls that the range's thread made or caused: see `causation`.
Earlier work was started before the range and ended after the range's start. It was launched for the same
thread, or ran in a stream into which this thread launches at any time: work in one stream runs in order. If
the thread launches nothing at all, earlier work is that of its whole process. Other work is everything else
that ran during the range. Earlier and other work count on the devices of the own work, or on all devices of
the process if there is no own work.

Migrations of unified memory have no call and count as none of these. An operation without a recorded call
counts as launched at its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import ColumnSet
from nsyswrap.analysis.arrays.groups import ascending, group_keys
from nsyswrap.analysis.arrays.spans import EnclosedCalls, Spans
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import union
from nsyswrap.capture.schema import PROCESS_MASK
from nsyswrap.capture.selection import machine_ids
from nsyswrap.capture.stream import one_of

_BLOCK_ROWS = 1 << 20  # operations processed at a time, to bound memory


@dataclass(frozen=True, eq=False)
class OperationTimes(ColumnSet):
    """GPU operations, times in ns; ``call`` is -1 and ``thread`` MISSING if the call was not recorded.

    ``launched`` is the start of the call. ``devices`` has one bit set: that of the device among the devices
    of the process. ``device`` numbers the devices of all machines, ``stream`` the streams.
    """

    start: NDArray[Any]
    end: NDArray[Any]
    call: NDArray[Any]
    launched: NDArray[Any]
    thread: NDArray[Any]
    process: NDArray[Any]
    devices: NDArray[Any]
    device: NDArray[Any]
    stream: NDArray[Any]

    @cached_property
    def kinds(self) -> tuple[NDArray[Any], OperationTimes]:
        """The kind of each operation, and one operation of each kind: these differ in no owner or place."""
        codes, keys = group_keys(self.thread, self.process, self.devices, self.device, self.stream)
        one = np.empty(len(keys[0]), np.int64)
        one[codes] = np.arange(len(codes))
        return codes.astype(np.int32), self.of(one)


def operations_of(whole: Capture, calls: Spans) -> OperationTimes:
    """Return all operations except migrations.

    ``calls`` are the capture's API calls, each with the thread that its launches count for.
    """
    operations = gpu_operations_of(whole)
    operations = operations.of(~operations.migration)
    known = operations.call >= 0
    launched, process = operations.start_ns.copy(), operations.global_pid.copy()
    thread = np.full(len(operations), MISSING)
    launched[known] = calls.start[operations.call[known]]
    thread[known] = calls.thread[operations.call[known]]
    process[known] = thread[known] & PROCESS_MASK  # trimmed exports lack globalPid
    codes, (owner, _) = group_keys(process, operations.device_id)
    number = np.arange(len(owner)) - np.searchsorted(owner, owner)
    return OperationTimes(
        operations.start_ns,
        operations.end_ns,
        operations.call,
        launched,
        thread,
        process,
        (1 << number)[codes],
        group_keys(machine_ids(process), operations.device_id)[0],
        group_keys(process, operations.device_id, operations.context_id, operations.stream_id)[0],
    )


class OwnWork(NamedTuple):
    """The GPU work that a range launched itself, times in ns; all fields are 0 for a range without own work.

    ``launches`` counts the calls that launched. ``first_call`` is the number of the first of them,
    ``first_start`` the start of its first operation. ``gpu`` is the sum of the durations of the operations,
    ``busy`` the time in which at least one ran. ``devices`` has one bit per device of the process.
    """

    launches: NDArray[Any]
    first_call: NDArray[Any]
    first_start: NDArray[Any]
    end: NDArray[Any]
    gpu: NDArray[Any]
    busy: NDArray[Any]
    devices: NDArray[Any]


def own_work(operations: OperationTimes, inside: EnclosedCalls) -> OwnWork:
    """Return the work started by the calls inside each range."""
    place = np.empty_like(inside.order)
    place[inside.order] = np.arange(len(place))
    rows = np.flatnonzero(operations.call >= 0)
    rows = rows[np.lexsort((operations.start[rows], place[operations.call[rows]]))]
    places = place[operations.call[rows]]
    first, last = (np.searchsorted(places, edge) for edge in (inside.first, inside.last))
    own = OwnWork(*(np.zeros(len(first), np.int64) for _ in OwnWork._fields))
    for ranges, begins, held in members(first, last):
        part = operations.of(rows[held])
        new = np.diff(part.call, prepend=-1) != 0
        new[begins] = True
        own.launches[ranges] = np.add.reduceat(new.astype(np.int64), begins)
        own.first_call[ranges], own.first_start[ranges] = part.call[begins], part.start[begins]
        own.end[ranges] = np.maximum.reduceat(part.end, begins)
        own.gpu[ranges] = np.add.reduceat(part.end - part.start, begins)
        own.busy[ranges] = covered(begins, part.start, part.end)
        own.devices[ranges] = np.bitwise_or.reduceat(part.devices, begins)
    return own


class NearbyWork(NamedTuple):
    """GPU work around each range that the range did not launch, times in ns.

    ``earlier`` is the time from the range's start to the end of earlier work, 0 without any. ``before_own``
    is the end of the last operation that can have delayed the first own one, MISSING without any. ``other``
    is the time in which other work ran, ``uncaused`` the time in which some ran that a thread of the process
    launched that has no ranges.
    """

    earlier: NDArray[Any]
    before_own: NDArray[Any]
    other: NDArray[Any]
    uncaused: NDArray[Any]


def nearby_work(
    operations: OperationTimes, ranges: Spans, work: OwnWork, ranging: NDArray[Any]
) -> NearbyWork:
    """Return the earlier and the other work of each range; ``ranging`` are the threads with ranges."""
    near = NearbyWork(*(np.zeros(len(ranges.start), np.int64) for _ in NearbyWork._fields))
    codes, keys = group_keys(ranges.thread, work.devices)
    for code, (thread, devices) in enumerate(zip(*(key.tolist() for key in keys), strict=True)):
        rows = np.flatnonzero(codes == code)
        start, end = ranges.start[rows], ranges.end[rows]
        ordered, apart = _ordered_and_apart(operations, thread, devices)
        near.earlier[rows] = np.maximum(_latest(ordered.launched, ordered.end, start), start) - start
        near.before_own[rows] = _latest(ordered.end, ordered.end, work.first_start[rows] + 1)
        others = ordered.of(ordered.thread != thread)
        if not (len(others.start) or len(apart.start)):
            continue
        near.other[rows] = _other_time(others, apart, start, end)
        others, apart = (part.of(_of_bare_threads(part, thread, ranging)) for part in (others, apart))
        near.uncaused[rows] = _other_time(others, apart, start, end)
    return near


def _ordered_and_apart(
    operations: OperationTimes, thread: int, devices: int
) -> tuple[OperationTimes, OperationTimes]:
    """Return the operations that can delay work of a thread by their order, and others on the same devices.

    ``devices`` has one bit per device of the process, or is 0 for all of them.
    """
    codes, kinds = operations.kinds
    same = kinds.process == thread & PROCESS_MASK
    same &= (kinds.devices & devices != 0) | (not devices)
    used = one_of(kinds.device, ascending(kinds.device[same]))
    streams = ascending(kinds.stream[kinds.thread == thread])
    if len(streams):
        same &= one_of(kinds.stream, streams) | (kinds.thread == MISSING)
    return operations.of(same[codes]), operations.of((used & ~same)[codes])


def _of_bare_threads(operations: OperationTimes, thread: int, ranging: NDArray[Any]) -> NDArray[Any]:
    """Mark the operations that were launched by other threads of the process, those without ranges."""
    bare = (operations.thread != MISSING) & (operations.thread != thread)
    bare &= operations.process == thread & PROCESS_MASK
    return bare & ~one_of(operations.thread, ranging)  # type: ignore[no-any-return]


def _latest(order: NDArray[Any], end: NDArray[Any], before: NDArray[Any]) -> NDArray[Any]:
    """Return the latest end among the entries whose ``order`` is less than each of ``before``.

    MISSING without such an entry.
    """
    rows = np.argsort(order, kind="stable")
    latest = np.concatenate(([MISSING], np.maximum.accumulate(end[rows])))
    return latest[np.searchsorted(order[rows], before, "left")]


def _other_time(
    by_others: OperationTimes, apart: OperationTimes, start: NDArray[Any], end: NDArray[Any]
) -> NDArray[Any]:
    """Return the time in each range with work apart, or launched in the range by other threads."""
    foreign = union(apart.start, apart.end)
    total = foreign.within(start, end)
    by_others = by_others.of(np.argsort(by_others.launched, kind="stable"))
    first, last = (np.searchsorted(by_others.launched, edge, "left") for edge in (start, end))
    low = start.min()
    for ranges, begins, held in members(first, last):
        size = np.diff(begins, append=len(held))
        window = [np.repeat(edge[ranges], size) for edge in (start, end)]
        ends = [np.clip(time[held], *window) for time in (by_others.start, by_others.end)]
        # On a clock that stops while work apart runs: that time counts once.
        alone = [time - foreign.within(np.full_like(time, low), time) for time in ends]
        total[ranges] += covered(begins, *alone)
    return total


def members(
    first: NDArray[Any], last: NDArray[Any]
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield blocks of ranges with members: numbers of the ranges, where each one begins, and the members.

    The members of a range are ``first`` to ``last``. Those of a block come one range after another.
    """
    some = np.flatnonzero(last > first)
    parts = np.cumsum((last - first)[some]) // _BLOCK_ROWS
    for ranges in np.split(some, np.flatnonzero(np.diff(parts)) + 1) if len(some) else ():
        size = (last - first)[ranges]
        begins = np.cumsum(size) - size
        yield ranges, begins, np.arange(size.sum()) + np.repeat(first[ranges] - begins, size)


def covered(begins: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return the time that each group of intervals covers, in ns; ``begins`` has the first row of each."""
    least, most = np.minimum.reduceat(start, begins), np.maximum.reduceat(end, begins)
    edges = np.concatenate(([0], np.cumsum(most - least)))
    # The shift puts the groups one after another.
    shift = np.repeat(edges[:-1] - least, np.diff(begins, append=len(start)))
    return union(start + shift, end + shift).within(edges[:-1], edges[1:])
