"""Find for how long operations held up others that were launched already, and in whose stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.arrays.groups import largest_first
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, communicating, gpu_operations_of, positions_of
from nsyswrap.analysis.packed import packed_names
from nsyswrap.analysis.stream_order import UNSURE, stream_order
from nsyswrap.capture.intervals import IntervalSet, difference, intersection, union

_MORE, _NEVER = 4, np.iinfo(np.int64).max
_MOST = 2_000  # operations that are followed: those with most of the time


def blocked(context: AdviceContext, marks: NDArray[Any], beside: IntervalSet) -> dict[str, Any]:
    """Return the numbers on operations that waited on the GPU for marked ones; empty if that is not known.

    ``beside`` is the typical time in which what hides the marked ones ran. ``blocked_ns`` is the rest of
    their time in which the next operation of the device had been launched and waited for a marked one.
    ``blocked_kernel`` is the name of the kernel that waited longest, empty if other
    operations did. ``same_stream``: most of it in its own stream, not for an event of another one. If nothing
    waited, ``blocked_ns`` is 0, and alone.
    """
    found = list(_blocked(context, _longest(context, marks, beside), marks))
    if not found:
        known = stream_order(context.capture.whole).knows_waits and (context.operations.call >= 0).any()
        return {"blocked_ns": 0} if known else {}
    blocker, waiter, start, end = (np.array(values) for values in zip(*found, strict=True))
    waited_ns = _alone_ns(context, beside, start, end)
    every = gpu_operations_of(context.capture.whole)
    same = every.stream[blocker] == every.stream[waiter]
    return {
        "blocked_ns": difference(context.of_typical(union(start, end)), beside).length,
        "blocked_kernel": _longest_kernel(context, waiter, waited_ns),
        "same_stream": bool(2 * waited_ns[same].sum() > waited_ns.sum()),
    }


def blocked_gaps(context: AdviceContext, cover: IntervalSet) -> dict[str, Any]:
    """Return the numbers on idle time in which launched work waited for another GPU; empty if none did.

    ``blocked_ns`` is that part of the cover, ``blocker_kernel`` the kernel that was waited for longest, empty
    if other operations were.
    """
    gaps, order = context.gaps, stream_order(context.capture.whole)
    rows = gaps.segments_of["queued"]
    gap, start, end, _ = (values[rows] for values in gaps.segments)
    time_ns = cover.within(start, end)
    chosen = largest_first(time_ns, _MOST)
    found = []
    for one in chosen[time_ns[chosen] > 0].tolist():
        times = int(start[one]), int(end[one])
        after = int(gaps.after[gap[one]])
        before = order.waited_for(after, *times) if after >= 0 else -1
        if before >= 0:
            found.append((before, *times))
    if not found:
        return {}
    blocker, start, end = (np.array(values) for values in zip(*found, strict=True))
    return {
        "blocked_ns": intersection(union(start, end), cover).length,
        "blocker_kernel": _longest_kernel(context, blocker, cover.within(start, end)),
    }


def _longest_kernel(context: AdviceContext, rows: NDArray[Any], waited_ns: NDArray[Any]) -> str:
    """Return the name of the kernel with most of the time; empty if there is none among the operations."""
    every = gpu_operations_of(context.capture.whole)
    kernels = every.kind[rows] == KINDS.index(KERNEL)
    if not kernels.any():
        return ""
    codes, texts = packed_names(context.capture.whole, KERNEL)
    return texts[int(np.bincount(codes[every.row[rows[kernels]]], waited_ns[kernels]).argmax())] or ""


def _longest(context: AdviceContext, marks: NDArray[Any], beside: IntervalSet) -> NDArray[Any]:
    """Return the positions of the marked operations that run alone for longest, ascending."""
    operations, rows = context.operations, np.flatnonzero(marks)
    took = context.duration_ns(rows)

    def alone_ns(rows: NDArray[Any]) -> NDArray[Any]:
        return _alone_ns(context, beside, operations.start_ns[rows], operations.end_ns[rows])

    alone = np.sort(alone_ns(rows[np.sort(largest_first(took, _MORE * _MOST))]))
    rows = rows[took >= alone[-_MOST:].min(initial=_NEVER)]  # so many run for longer than the others
    time_ns = alone_ns(rows)
    chosen = largest_first(time_ns, _MOST)
    return np.sort(rows[chosen[time_ns[chosen] > 0]])


def _alone_ns(
    context: AdviceContext, beside: IntervalSet, start: NDArray[Any], end: NDArray[Any]
) -> NDArray[Any]:
    """Return the typical time without ``beside`` in each of these intervals, in ns."""
    return context.typical.within(start, end) - beside.within(start, end)  # type: ignore[no-any-return]


def _blocked(
    context: AdviceContext, rows: NDArray[Any], marks: NDArray[Any]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield a marked operation, the one that waited for it, and from when until when it did.

    That is the next one on the device that neither is marked nor communicates. It waits from its launch on:
    before that the host had not come so far.
    """
    operations, place = context.operations, positions_of(context.capture)
    order = stream_order(context.capture.whole)
    others = (operations.call >= 0) & ~communicating(context.capture, operations) & ~marks
    for *_, mine in operations.by_device():
        here = context.marks(mine)
        waiters, asked = np.flatnonzero(others & here), rows[here[rows]]
        after = np.searchsorted(operations.start_ns[waiters], operations.end_ns[asked])
        within = after < len(waiters)
        asked, waiting = asked[within], place[waiters[after[within]]]
        start, end = operations.start_ns[asked], operations.end_ns[asked]
        since = np.maximum(start, order.launched_ns(waiting))
        held = np.flatnonzero(since < end)
        before = order.before(waiting[held])
        # What ran right before is mostly the one, or did not run after it.
        maybe = (before == UNSURE) | ((before >= 0) & (order.start_ns[before] >= end[held]))
        columns = (values[held].tolist() for values in (place[asked], waiting, start, end, since))
        for last, unsure, (blocker, waiter, begin, until, launched) in zip(
            before.tolist(), maybe.tolist(), zip(*columns, strict=True), strict=True
        ):
            if last == blocker or (unsure and order.waited_for(waiter, begin, until) == blocker):
                yield blocker, waiter, launched, until
