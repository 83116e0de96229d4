"""What the GPU did for an NVTX range, and what else it did meanwhile: own, earlier and other work.

Own work is what the calls that the range's thread made inside it started on the GPU. Earlier work are
operations of the same process, on the devices of the own work (without any: on all of its devices), whose
calls began before the range did, and which ended after that. Other work is what else ran on these devices
during the range: launched meanwhile by other threads, or by other processes.

Migrations of unified memory belong to no call and are none of these. An operation whose call was not recorded
counts as launched when it started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.gpu_operations import gpu_operations_of, machine_ids
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import PROCESS_MASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.arrays.intervals import Cover
    from nsyswrap.analysis.arrays.spans import Inside, Spans
    from nsyswrap.capture.capture import Capture

_AT_ONCE = 1 << 20  # operations that are looked at together


class Operations(NamedTuple):
    """Operations on the GPU; ``call`` is -1 and ``thread`` MISSING where the call was not recorded.

    ``devices`` has one bit set, of those of the process; ``device`` numbers the devices of all machines.
    """

    start: NDArray[Any]
    end: NDArray[Any]
    call: NDArray[Any]
    launched: NDArray[Any]
    thread: NDArray[Any]
    process: NDArray[Any]
    devices: NDArray[Any]
    device: NDArray[Any]

    def of(self, rows: NDArray[Any]) -> Operations:
        """Return these operations, by position or mark."""
        return Operations(*(field[rows] for field in self))


def operations_of(whole: Capture, calls: Spans) -> Operations:
    """Return all operations but migrations; ``calls`` are the capture's, with the threads they count for."""
    found = gpu_operations_of(whole)
    found = found.of(~found.migration)
    known = found.call >= 0
    launched, thread, process = found.start_ns.copy(), np.full(len(found), MISSING), found.global_pid.copy()
    launched[known] = calls.start[found.call[known]]
    thread[known] = calls.thread[found.call[known]]
    process[known] = thread[known] & PROCESS_MASK  # trimmed exports do not say whose an operation is
    codes, (owner, _) = group_keys(process, found.device_id)
    number = np.arange(len(owner)) - np.searchsorted(owner, owner)
    return Operations(
        found.start_ns,
        found.end_ns,
        found.call,
        launched,
        thread,
        process,
        (1 << number)[codes],
        group_keys(machine_ids(process), found.device_id)[0],
    )


class Own(NamedTuple):
    """Own work of each range, times in ns; of a range without any all are 0.

    ``first_call`` is the number of the first call that launched something, ``first_start`` when the first
    operation of it started; ``gpu`` adds the operations up, ``busy`` is the time in which any ran.
    """

    launches: NDArray[Any]
    first_call: NDArray[Any]
    first_start: NDArray[Any]
    end: NDArray[Any]
    gpu: NDArray[Any]
    busy: NDArray[Any]
    devices: NDArray[Any]


def own_work(operations: Operations, inside: Inside) -> Own:
    """Return what the calls inside each range started."""
    place = np.empty_like(inside.order)
    place[inside.order] = np.arange(len(place))
    rows = np.flatnonzero(operations.call >= 0)
    rows = rows[np.lexsort((operations.start[rows], place[operations.call[rows]]))]
    places = place[operations.call[rows]]
    first, last = (np.searchsorted(places, edge) for edge in (inside.first, inside.last))
    own = Own(*(np.zeros(len(first), np.int64) for _ in Own._fields))
    for ranges, begins, members in _members(first, last):
        part = operations.of(rows[members])
        new = np.diff(part.call, prepend=-1) != 0
        new[begins] = True
        own.launches[ranges] = np.add.reduceat(new.astype(np.int64), begins)
        own.first_call[ranges], own.first_start[ranges] = part.call[begins], part.start[begins]
        own.end[ranges] = np.maximum.reduceat(part.end, begins)
        own.gpu[ranges] = np.add.reduceat(part.end - part.start, begins)
        own.busy[ranges] = _covered(begins, part.start, part.end)
        own.devices[ranges] = np.bitwise_or.reduceat(part.devices, begins)
    return own


class Around(NamedTuple):
    """What ran around each range, times in ns.

    ``earlier`` is how long after the range's start earlier work ended, 0 where there was none; ``before_own``
    when the last operation before the first own one ended, MISSING where there was none; ``other`` the time
    in which other work ran.
    """

    earlier: NDArray[Any]
    before_own: NDArray[Any]
    other: NDArray[Any]


def around(operations: Operations, ranges: Spans, own: Own) -> Around:
    """Return what ran around each range."""
    found = Around(*(np.zeros(len(ranges.start), np.int64) for _ in Around._fields))
    codes, keys = group_keys(ranges.thread & PROCESS_MASK, own.devices)
    for code, (process, devices) in enumerate(zip(*(key.tolist() for key in keys), strict=True)):
        rows = np.flatnonzero(codes == code)
        same = operations.process == process
        mine = operations.of(same & (operations.devices & devices != 0) if devices else same)
        start, end = ranges.start[rows], ranges.end[rows]
        found.earlier[rows] = np.maximum(_latest(mine.launched, mine.end, start), start) - start
        found.before_own[rows] = _latest(mine.end, mine.end, own.first_start[rows] + 1)
        others = operations.of(~same & np.isin(operations.device, np.unique(mine.device)))
        foreign = union(others.start, others.end)
        for thread in np.unique(ranges.thread[rows]).tolist():
            part = ranges.thread[rows] == thread
            strangers = mine.of(mine.thread != thread)
            found.other[rows[part]] = _other(strangers, foreign, start[part], end[part])
    return found


def _latest(order: NDArray[Any], end: NDArray[Any], before: NDArray[Any]) -> NDArray[Any]:
    """Return the latest end of what comes before each moment in ``order``; MISSING where nothing does."""
    rows = np.argsort(order, kind="stable")
    latest = np.concatenate(([MISSING], np.maximum.accumulate(end[rows])))
    return latest[np.searchsorted(order[rows], before, "left")]


def _other(strangers: Operations, foreign: Cover, start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return how much of each range other processes take, or operations launched in it by strangers."""
    total = foreign.within(start, end)
    strangers = strangers.of(np.argsort(strangers.launched, kind="stable"))
    first, last = (np.searchsorted(strangers.launched, edge, "left") for edge in (start, end))
    low = start.min()
    for ranges, begins, members in _members(first, last):
        size = np.diff(begins, append=len(members))
        window = [np.repeat(edge[ranges], size) for edge in (start, end)]
        ends = [np.clip(time[members], *window) for time in (strangers.start, strangers.end)]
        # On a clock that stands still while other processes are at work.
        alone = [time - foreign.within(np.full_like(time, low), time) for time in ends]
        total[ranges] += _covered(begins, *alone)
    return total


def _members(
    first: NDArray[Any], last: NDArray[Any]
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield ranges that have members, a few at a time: their numbers, and ``first`` to ``last`` of each.

    These come one range after another; between them is where each range's begin.
    """
    some = np.flatnonzero(last > first)
    parts = np.cumsum((last - first)[some]) // _AT_ONCE
    for ranges in np.split(some, np.flatnonzero(np.diff(parts)) + 1) if len(some) else ():
        size = (last - first)[ranges]
        begins = np.cumsum(size) - size
        yield ranges, begins, np.arange(size.sum()) + np.repeat(first[ranges] - begins, size)


def _covered(begins: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return how much time the intervals of each group cover, in ns; ``begins`` is where the groups do."""
    least, most = np.minimum.reduceat(start, begins), np.maximum.reduceat(end, begins)
    edges = np.concatenate(([0], np.cumsum(most - least)))
    shift = np.repeat(edges[:-1] - least, np.diff(begins, append=len(start)))  # groups one behind another
    return union(start + shift, end + shift).within(edges[:-1], edges[1:])
