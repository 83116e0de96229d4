"""Find the thread whose NVTX ranges the launches of each API call count for.

Launches count for the ranges of their own thread. They also count for a range of another thread of the
process where it is seen that this thread caused them. Below, the *caller* is the thread with the range, the
*worker* is the thread that launches.

The caller is *silent* while it is in no CUDA call and no NVTX range of it starts or ends. Marks do not count,
as samplers write them at any time. A caller that waits for a worker is silent, as a thread in PyTorch's
``loss.backward()`` is. The calls of the worker are divided into *bursts*. A new burst begins at the first
call after an event of the caller, if the worker had paused for longer than it usually does between two calls
without such an event. Usually means 90 % of these pauses, and at least twice their median. So the calls of a
worker that goes on at its own pace, whatever the caller does, are one burst.

A burst is *enclosed* if all of it lies in one stretch of silence inside a range of the program's own. Ranges
of the program's own are those outside NVTX domains, or all if its process has no such range. An enclosed
burst counts for the caller's ranges if one of these holds:

- The worker is PyTorch's autograd thread, by the name of the thread. Here every event of the caller ends a
  burst.
- An OS runtime call of the caller that waits, such as ``pthread_cond_wait``, lasts throughout the burst.
  Condition waits with a time limit are left out: Python's threads wait like this for the interpreter's lock.
- The pattern holds for the pair of threads. At least 90 % of the worker's bursts during the caller's ranges
  are enclosed, and at least 90 % of the ranges with the names of those that enclose them directly enclose
  some. If the worker has ranges of its own, these are part of its bursts and have to be enclosed as well, and
  at least two bursts are needed: an idle thread in one long range causes nothing.

If several callers qualify for a call, it counts for the one whose stretches of silence are the shortest.
Calls of a thread that is a caller itself count for this thread alone. Without such evidence another thread's
launches count for that thread alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, repeated
from nsyswrap.analysis.arrays.spans import Spans, closest
from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.names import by_thread, calls_named, is_autograd
from nsyswrap.analysis.nvtx_ranges import ALL, MAIN_DOMAIN, closed_ranges, own_texts
from nsyswrap.base.constants import MISSING
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import union
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import PROCESS_MASK
from nsyswrap.capture.stream import one_of

PATTERN_SHARE = 0.9
_LEAST_BURSTS = 2  # that make a pattern if the worker has ranges of its own
_USUAL_SHARE = 0.9  # of the worker's pauses; a longer one can separate two bursts
_USUAL_MEDIANS = 2
MOST_PAIRS = 4_096  # of threads with ranges and threads with calls; a launch counts for its own thread then
_WAITS = regex(
    "(pthread_(cond_wait|join|barrier_wait)|futex|sem_(wait|timedwait|clockwait)|p?poll|p?select|epoll_p?wait)$"
)


def launched_for(
    whole: Capture, ranges: NDArray[Any], calls: NDArray[Any]
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield marks of ranges, and for these the thread that each call's launches count for.

    ``ranges`` and ``calls`` are the threads of both. Calls that another thread caused count for its ranges,
    and for those of the thread that made them.
    """
    causing = causing_threads(whole)
    callers = one_of(ranges, ascending(causing[causing != calls]))
    for marks, threads in ((callers, causing), (~callers, calls)):
        if marks.any() or (threads is calls and not len(ranges)):
            yield marks, threads


def adopted_notes(adopted: NDArray[Any]) -> tuple[Note, ...]:
    """Return a note if ranges hold launches by other threads; ``adopted`` counts these by range."""
    held = np.count_nonzero(adopted)
    return (Note("ranges_adopted", {"ranges": held}),) if held else ()


def overlap_notes(whole: Capture, uncaused_ns: NDArray[Any]) -> tuple[Note, ...]:
    """Return a note if uncaused work of other threads ran during ranges: ``uncaused_ns`` of each range."""
    count = np.count_nonzero(uncaused_ns)
    overlapped = Note("ranges_overlapped", {"ranges": count, "has_osrt": whole.has("osrt")})
    many = Note("many_threads", {"pairs": MOST_PAIRS})
    return (*([overlapped] if count else []), *([many] if _pairs(whole) is None else []))


@per_capture
def causing_threads(whole: Capture) -> NDArray[Any]:
    """Return the thread that caused each API call of the whole capture: its own thread, or a caller."""
    calls = Spans(*whole.columns("api", "global_tid", "start_ns", "end_ns").values())
    causing = calls.thread.copy()
    pairs = _pairs(whole)
    if not pairs:
        return causing
    threads = {thread: _Thread.of(whole, calls, thread) for thread in {i for pair in pairs for i in pair}}
    caused = [(*_caused(threads[caller], threads[worker]), caller) for caller, worker in pairs]
    for _, rows, caller in sorted(caused, key=lambda one: one[0]):
        free = rows[causing[rows] == calls.thread[rows]]
        causing[free] = caller
    callers = ascending(causing[causing != calls.thread])
    # What a caller launches itself is not handed on to another one.
    result: NDArray[Any] = np.where(one_of(calls.thread, callers), calls.thread, causing)
    return result


@per_capture
def own_ranges(whole: Capture) -> tuple[NDArray[Any], Spans]:
    """Return positions and spans of the closed ranges of the program's own, by start.

    Ranges in domains count where a process has no others.
    """
    rows, ranges = closed_ranges(whole)
    process = ranges.thread & PROCESS_MASK
    main = one_of(whole.columns("nvtx", "domain_id")["domain_id"][rows], MAIN_DOMAIN)
    main |= ~one_of(process, ascending(process[main]))
    return rows[main], Spans(*(field[main] for field in ranges))


def ranging_threads(whole: Capture) -> NDArray[Any]:
    """Return the threads with ranges of the program's own."""
    threads: NDArray[Any] = ascending(own_ranges(whole)[1].thread)
    return threads


@per_capture
def _pairs(whole: Capture) -> list[tuple[int, int]] | None:
    """Return the pairs of a thread with ranges and another thread of its process with calls.

    Return None if there are more than ``MOST_PAIRS``: comparing them would take minutes.
    """
    callers, workers = ranging_threads(whole), ascending(whole.columns("api", "global_tid")["global_tid"])
    process = workers & PROCESS_MASK
    first, last = (np.searchsorted(process, callers & PROCESS_MASK, side) for side in ("left", "right"))
    if (last - first).sum() > MOST_PAIRS:
        return None
    caller, nth = repeated(last - first)
    pairs = zip(callers[caller].tolist(), workers[first[caller] + nth].tolist(), strict=True)
    return [(thread, worker) for thread, worker in pairs if worker != thread]


class _Items(NamedTuple):
    """Calls and ranges by start: times in ns, and the position of each call, -1 for a range."""

    start: NDArray[Any]
    end: NDArray[Any]
    call: NDArray[Any]


@dataclass(frozen=True)
class _Thread:
    """What one thread does: the positions of its calls, its ranges, borders and waits, all by start, in ns.

    ``names`` has a code for the name of each range. ``borders`` are the times at which its NVTX ranges start
    and end.
    """

    calls: _Items
    ranges: Spans
    names: NDArray[Any]
    borders: NDArray[Any]
    waits: Spans
    autograd: bool

    @classmethod
    def of(cls, whole: Capture, calls: Spans, thread: int) -> _Thread:
        """Collect what a thread does."""
        mine = by_thread(whole).get(thread, np.empty(0, np.int32))
        rows, ranges = own_ranges(whole)
        here = ranges.thread == thread
        return cls(
            calls=_Items(calls.start[mine], calls.end[mine], mine),
            ranges=Spans(*(field[here] for field in ranges)),
            names=own_texts(whole, rows[here])[0],
            borders=_borders(whole, thread),
            waits=_waits_of(whole, thread),
            autograd=is_autograd(whole, thread),
        )

    @cached_property
    def events(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The starts of its calls and borders, and the latest end up to each of them."""
        start = np.concatenate((self.calls.start, self.borders))
        end = np.concatenate((self.calls.end, self.borders))
        order = np.argsort(start, kind="stable")
        return start[order], np.maximum.accumulate(end[order])

    @cached_property
    def items(self) -> _Items:
        """Its calls and its ranges."""
        none = np.full(len(self.ranges.start), -1)
        parts = zip(self.calls, (self.ranges.start, self.ranges.end, none), strict=True)
        every = _Items(*(np.concatenate(pair) for pair in parts))
        order = np.argsort(every.start, kind="stable")
        return _Items(*(field[order] for field in every))


def _borders(whole: Capture, thread: int) -> NDArray[Any]:
    events = whole.columns("nvtx", "event_type", "start_ns", "end_ns", "global_tid", "end_global_tid")
    ended_by = np.where(events["end_global_tid"] == MISSING, events["global_tid"], events["end_global_tid"])
    begun = np.isin(events["event_type"], ALL) & (events["global_tid"] == thread)
    ended = np.isin(events["event_type"], ALL) & (ended_by == thread) & (events["end_ns"] != MISSING)
    times: NDArray[Any] = np.concatenate((events["start_ns"][begun], events["end_ns"][ended]))
    return times


def _waits_of(whole: Capture, thread: int) -> Spans:
    if not whole.has("osrt"):
        return Spans(*(np.empty(0, np.int64) for _ in Spans._fields))
    calls = Spans(*whole.columns("osrt", "global_tid", "start_ns", "end_ns").values())
    rows = calls_named(whole, _WAITS, "osrt")
    mine = rows[calls.thread[rows] == thread]
    return Spans(*(field[mine[np.argsort(calls.start[mine], kind="stable")]] for field in calls))


def _caused(caller: _Thread, worker: _Thread) -> tuple[float, NDArray[Any]]:
    """Return the mean silence in ns around the bursts that count, and the positions of their calls."""
    items = worker.items if len(worker.ranges.start) and not worker.autograd else worker.calls
    stretch, silent = _stretches(caller, items)
    burst = _bursts(items, stretch, cut=worker.autograd)
    first = np.flatnonzero(np.diff(burst, prepend=-1))
    if not len(first):
        return 0.0, np.empty(0, np.int64)
    start, end = items.start[first], np.maximum.reduceat(items.end, first)
    inside = union(caller.ranges.start, caller.ranges.end).holds(items.start)
    enclosed = np.logical_and.reduceat(silent & inside, first)
    enclosed &= np.minimum.reduceat(stretch, first) == np.maximum.reduceat(stretch, first)
    relevant = np.logical_or.reduceat(inside | (items.call < 0), first)
    share = int(enclosed.sum()) / max(int(relevant.sum()), 1)
    pattern = share >= PATTERN_SHARE and _regular(caller, start[enclosed], end[enclosed])
    pattern = pattern and int(enclosed.sum()) >= (_LEAST_BURSTS if items is worker.items else 1)
    counts = enclosed if worker.autograd or pattern else enclosed & _waited(caller.waits, start, end)
    calls = items.call[counts[burst]]
    return _silence(caller, stretch[first][counts]), calls[calls >= 0]


def _silence(caller: _Thread, stretch: NDArray[Any]) -> float:
    """Return the mean length of these stretches in ns."""
    starts, reached = caller.events
    # Inside a range there is an event on either side.
    return float(np.mean(starts[stretch] - reached[stretch - 1])) if len(stretch) else 0.0


def _stretches(caller: _Thread, items: _Items) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the number of caller's events up to each item's start, and marks of items during its silence.

    The borders of a stretch may touch a call, but not a range: ranges of equal length are no evidence.
    """
    starts, reached = caller.events
    stretch = np.searchsorted(starts, items.start, "right")
    before = np.concatenate(([np.iinfo(np.int64).min], reached))[stretch]
    after = np.append(starts, np.iinfo(np.int64).max)[stretch]
    apart = items.call < 0
    return stretch, (before <= items.start - apart) & (items.end <= after - apart)


def _bursts(items: _Items, stretch: NDArray[Any], *, cut: bool) -> NDArray[Any]:
    """Return the number of the burst of each item; ``cut`` ends a burst at every event of the caller."""
    if not len(stretch):
        return stretch
    pauses = np.maximum(items.start[1:] - np.maximum.accumulate(items.end)[:-1], 0)
    same = stretch[1:] == stretch[:-1]
    usual = -1.0
    if same.any() and not cut:
        usual = max(
            float(np.quantile(pauses[same], _USUAL_SHARE, method="inverted_cdf")),
            _USUAL_MEDIANS * float(np.median(pauses[same])),
        )
    return np.concatenate(([0], np.cumsum(~same & (pauses > usual))))


def _regular(caller: _Thread, start: NDArray[Any], end: NDArray[Any]) -> bool:
    """Return True if most ranges named like those that directly enclose these bursts enclose one of them."""
    thread = np.full(len(start), caller.ranges.thread[0])
    innermost = closest(Spans(thread, start, end), caller.ranges, -caller.ranges.start)
    held = ascending(innermost[innermost >= 0])
    named = np.count_nonzero(np.isin(caller.names, caller.names[held]))
    return bool(0 < len(held) >= PATTERN_SHARE * named)


def _waited(waits: Spans, start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Mark the bursts throughout which one of the waits lasts."""
    last = np.searchsorted(waits.start, start, "right") - 1
    reached = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(waits.end)))
    return reached[last + 1] >= end
