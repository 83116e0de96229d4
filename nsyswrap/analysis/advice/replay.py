"""Replay a judged part without its waits for the GPU, or with faster kernels.

The host keeps its recorded times between calls, and each call its duration, but waits take none, or end
earlier. What each GPU runs keeps its order and its durations, and begins when it is launched and the GPU is
free.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.gpu_operations import KINDS, MEMCPY, gpu_operations_of
from nsyswrap.analysis.names import CLASSES, COPY, LAUNCH, SYNCHRONISE, by_thread, call_classes
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import IntervalSet, difference, intersection, union
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import PROCESS_MASK, TINY_BYTES, TO_HOST
from nsyswrap.capture.stream import one_of

_BLOCKED_NS = 100_000  # a launch that takes longer waits until the queue of launches has room
_FIXED = ("queued", "migration", "unknown")  # idle time that does not depend on the host


def gained_without_waits(context: AdviceContext, calls: NDArray[np.int64] | None = None) -> int:
    """Return the time in ns that the part would take less if the host waited for nothing.

    With ``calls``, the positions of calls, it waits in all but these. A gap shrinks by what its launch comes
    earlier, at most to the part of it that does not depend on the host. What is gained by then, g, grows in
    each gap to min(g + gap, time of the waits before its launch).
    """
    gaps = context.gaps
    if not len(gaps) or not context.capture.whole.has("api"):
        return 0
    fixed = sum((gaps.parts[cause] for cause in _FIXED), np.zeros(len(gaps), np.int64))
    earlier, first, gained = _waited_before_launch(context, calls), 0, []
    for *_, end in gaps.owners:
        free = np.cumsum((gaps.duration_ns - fixed)[first:end])
        most = int((free - earlier[first:end]).max(initial=0))
        gained.append(int(free[-1]) - most if len(free) else 0)
        first = end
    return min(gained)


def decisive_ns(context: AdviceContext, rows: NDArray[Any]) -> int:
    """Return the time in ns by which the part would end earlier if these operations took none.

    ``rows`` has positions in ``context.operations``. Time beside other kernels counts for nothing.
    Neither does time since the host last waited for the GPU, if the GPU then waits for a launch: it would
    wait for longer. On several GPUs it is the least: none of them ends before its other kernels have run.
    """
    operations, least = context.operations, [context.window_ns]
    mine = np.zeros(len(operations), dtype=bool)
    mine[rows] = True
    for process, device, every in operations.by_device():
        others = context.running(every[(operations.computes & ~mine)[every]])
        cover = difference(context.running(every[mine[every]]), others)
        lost = _lost_in_gaps(context, cover, slice(*context.gaps.rows_of(process, device)))
        least.append(cover.length - lost if cover.length else context.window_ns - others.length)
    return min(least)


def _lost_in_gaps(context: AdviceContext, cover: IntervalSet, here: slice) -> int:
    """Return the part of the time of a cover in ns that gaps before launches take, if it is saved."""
    gaps, whole, never = context.gaps, context.capture.whole, np.iinfo(np.int64).min
    if not whole.has("api"):
        return 0
    fixed = sum((gaps.parts[cause][here] for cause in _FIXED), np.zeros(1, np.int64))
    late = np.flatnonzero((gaps.call[here] >= 0) & (fixed < gaps.duration_ns[here]))
    start, launched = (values[here][late] for values in (gaps.start_ns, gaps.call))
    waited = np.append(never, _ends_of_waits(context.capture, context.judged.steps.global_pid))
    returned = whole.columns("api", "end_ns")["end_ns"][launched]
    last = waited[np.searchsorted(waited, returned, "right") - 1]
    since = np.maximum(last, np.append(never, start[:-1])[: len(start)])
    return int(cover.within(np.minimum(since, start), start).sum())


@per_capture
def _ends_of_waits(view: Capture, global_pid: int) -> NDArray[np.int64]:
    """Return when calls of the process had waited for GPU work, in order; launches can wait, too."""
    whole = view.whole
    start, end, caller = whole.columns("api", "start_ns", "end_ns", "global_tid").values()
    first, last = _waits(whole)
    starting = one_of(call_classes(whole), map(CLASSES.index, (LAUNCH, COPY)))
    blocked = np.flatnonzero(starting & (end - start > _BLOCKED_NS))
    first, last = np.append(first, blocked), np.append(last, blocked)
    mine = one_of(caller[first] & PROCESS_MASK, (global_pid, MISSING))
    begun, over, ends = start[first[mine]], end[last[mine]], np.sort(gpu_operations_of(view).end_ns)
    ended = np.searchsorted(ends, over, "right") > np.searchsorted(ends, begun, "right")
    return np.sort(over[ended])


def _waited_before_launch(context: AdviceContext, calls: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the time that the process waited in the part before it launched what ends each gap, in ns.

    The waits of one thread delay the others: PyTorch's backward runs in a thread of its own.
    """
    gaps, whole = context.gaps, context.capture.whole
    start, end, caller = whole.columns("api", "start_ns", "end_ns", "global_tid").values()
    begin = int(context.judged.window.start[0])
    waits, until = _waits(whole) if calls is None else (calls, calls)
    mine = one_of(caller[waits] & PROCESS_MASK, (context.judged.steps.global_pid, MISSING))
    launched = np.where(gaps.call >= 0, np.minimum(start[gaps.call], gaps.end_ns), gaps.end_ns)
    launched = np.maximum(launched, begin)
    waited = intersection(union(start[waits[mine]], end[until[mine]]), context.judged.window)
    return waited.within(np.full(len(gaps), begin), launched)


@per_capture
def _waits(whole: Capture) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the first and the last call of each wait for the GPU.

    A wait is a call that synchronizes, a copy to the host that blocks, or a tiny copy to the host and the
    call that synchronizes next: as ``.item()``, it goes as a whole.
    """
    operations, end = gpu_operations_of(whole), whole.columns("api", "end_ns")["end_ns"]
    waits = call_classes(whole) == CLASSES.index(SYNCHRONISE)
    pairs = [np.flatnonzero(waits)] * 2
    rows = np.flatnonzero((operations.kind == KINDS.index(MEMCPY)) & (operations.call >= 0))
    if len(rows):
        copies = whole.columns(MEMCPY, "copy_kind", "bytes")
        kind, size = (values[operations.row[rows]] for values in copies.values())
        rows, size = rows[kind == TO_HOST], size[kind == TO_HOST]
        call, following = operations.call[rows], np.arange(len(end))
        for calls in by_thread(whole).values():
            following[calls[:-1]] = calls[1:]
        last = np.where(waits[following[call]] & (size <= TINY_BYTES), following[call], call)
        chosen = (end[call] >= operations.end_ns[rows]) | (last != call)
        pairs = [np.append(pairs[0], call[chosen]), np.append(pairs[1], last[chosen])]
    return pairs[0], pairs[1]
