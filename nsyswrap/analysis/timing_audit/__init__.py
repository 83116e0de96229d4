"""Judge whether the time of each NVTX range is the time of the GPU work launched in it.

The GPU runs behind the host. A range can end before the work it launched, and it can wait for work launched
before it. `range_work` tells own, earlier and other work apart. The verdict depends on own work that ends
after the range, and on earlier work that ends after the range's start.

Launches of another thread count where the range's thread is seen to have caused them: see `causation`. Other
work of that thread can overlap with the range in time. It changes no verdict, and ``uncaused_ns`` says how
much there was.

The time that a range should have reported lasts from its start to its end, or to the end of its own work if
that is later, minus the time lost to earlier work. Two waits are lost:

- time in synchronizing calls before the first launch, while earlier work was running;
- the time from the return of the first launch to the end of the operation before the first own one. If the
  first own operation started before its call returned, as in blocking copies, this wait begins with the call.

GPU times are converted to the CPU's clock, with an error of about 1 us. An end up to TOLERANCE_NS after the
start or end of a range counts as before it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, insort
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import ColumnSet
from nsyswrap.analysis.arrays.groups import ascending
from nsyswrap.analysis.arrays.spans import EnclosedCalls, Spans, one_axis
from nsyswrap.analysis.gpu_operations import check_number
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.names import CLASSES, LOAD, SYNCHRONISE, call_class, call_classes, call_names
from nsyswrap.analysis.nvtx_ranges import closed_ranges, own_texts
from nsyswrap.analysis.timing_audit.causation import launched_for, ranging_threads
from nsyswrap.analysis.timing_audit.range_work import (
    NearbyWork,
    OwnWork,
    nearby_work,
    operations_of,
    own_work,
)
from nsyswrap.base.constants import MEASURE_MARK, MISSING
from nsyswrap.base.files import parsed
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import union
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import PROCESS_MASK

Key = tuple[int, str]  # global process id and name of a range


_MARK_EVENT = 34  # NVTX_EVENTS.eventType of a mark


# Read the times that a program measured itself: the NVTX marks that nsyswrap.measure leaves.


class NvtxMark(NamedTuple):
    """One mark: its time in ns, its thread, and the range's name and measured times in ns."""

    time: int
    thread: int
    name: str
    host_ns: int
    cuda_ns: int | None


def measured_times(whole: Capture, rows: NDArray[Any], ranges: Spans) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the measured host time and CUDA event time of each range in ns; MISSING without a mark.

    ``rows`` are the positions of the closed ranges among the capture's NVTX events, ``ranges`` their spans.
    """
    host, cuda = np.full(len(rows), MISSING), np.full(len(rows), MISSING)
    marks = read_marks(whole)
    if marks:
        names = _names(whole, rows, {mark.name for mark in marks})
        unmarked = _UnmarkedRanges(ranges, names)
        for mark in marks:
            unmarked.add_ended(mark.time)
            i = unmarked.take(mark)
            if i is not None:
                host[i], cuda[i] = mark.host_ns, MISSING if mark.cuda_ns is None else mark.cuda_ns
    return host, cuda


def read_marks(whole: Capture) -> list[NvtxMark]:
    """Return the marks of nsyswrap.measure by time, without those whose text cannot be read."""
    events = whole.columns("nvtx", "event_type", "start_ns", "global_tid")
    rows = np.flatnonzero(events["event_type"] == _MARK_EVENT)
    rows = rows[np.argsort(events["start_ns"][rows], kind="stable")]
    codes, texts = own_texts(whole, rows)
    contents = [_content(text) for text in texts]
    times, threads = (events[field][rows].tolist() for field in ("start_ns", "global_tid"))
    return [
        NvtxMark(time, thread, *content)
        for time, thread, code in zip(times, threads, codes.tolist(), strict=True)
        if (content := contents[code])
    ]


def _content(text: str | None) -> tuple[str, int, int | None] | None:
    if not text or not text.startswith(MEASURE_MARK):
        return None
    try:
        content = parsed(json.loads, text.removeprefix(MEASURE_MARK))
        cuda_ns = content.get("cuda_ns")
        return str(content["name"]), int(content["host_ns"]), None if cuda_ns is None else int(cuda_ns)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _names(whole: Capture, rows: NDArray[Any], wanted: set[str]) -> dict[int, str]:
    """Return the names of the ranges that have one of the wanted names, by number of the range."""
    codes, texts = own_texts(whole, rows)
    known = {code: text for code, text in enumerate(texts) if text in wanted and text is not None}
    return {i: known[code] for i, code in enumerate(codes.tolist()) if code in known}


class _UnmarkedRanges:
    """The ranges that have ended by some time and still wait for their mark.

    A mark comes right after its range, on the same thread. A mark with CUDA event times comes later: it
    belongs to the range of its name and process whose length is nearest to the measured host time.
    """

    def __init__(self, ranges: Spans, names: dict[int, str]) -> None:
        self._names = names
        self._thread, self._end = ranges.thread.tolist(), ranges.end.tolist()
        self._length = (ranges.end - ranges.start).tolist()
        self._running = sorted(names, key=lambda i: -self._end[i])
        self._latest: dict[Key, int] = {}
        self._waiting: dict[Key, list[tuple[int, int]]] = {}  # sorted lengths and numbers of ranges

    def add_ended(self, time: int) -> None:
        """Add the ranges that have ended by this time in ns; times must ascend from call to call."""
        while self._running and self._end[self._running[-1]] <= time:
            i = self._running.pop()
            self._latest[self._thread[i], self._names[i]] = i
            insort(self._waiting.setdefault(self._key(i), []), (self._length[i], i))

    def take(self, mark: NvtxMark) -> int | None:
        """Remove the range that a mark belongs to and return its number; None if no range waits for it."""
        if mark.cuda_ns is None:
            i = self._latest.pop((mark.thread, mark.name), None)
        else:
            i = self._nearest(self._waiting.get((mark.thread & PROCESS_MASK, mark.name), []), mark.host_ns)
        waiting = self._waiting[self._key(i)] if i is not None else []
        at = bisect_left(waiting, (self._length[i], i)) if i is not None else 0
        if i is None or waiting[at : at + 1] != [(self._length[i], i)]:
            return None
        del waiting[at]
        return i

    def _key(self, i: int) -> Key:
        return self._thread[i] & PROCESS_MASK, self._names[i]

    def _nearest(self, waiting: list[tuple[int, int]], length: int) -> int | None:
        at = bisect_left(waiting, (length, -1))
        near = waiting[max(at - 1, 0) : at + 1]
        return min(near, key=lambda entry: abs(entry[0] - length))[1] if near else None


TOLERANCE_NS = 1000
COMPLETE, LAUNCH_ONLY, EARLIER, MIXED, NOTHING = VERDICTS = (
    "complete",
    "launch only",
    "includes earlier work",
    "mixed",
    "no GPU work",
)
_MOST_THREADS = 1_024  # with ranges, each of which is compared with all operations
_NO_LOAD = "Get|Set"  # in names of calls that load nothing: queries, and settings made repeatedly


@dataclass(frozen=True, eq=False)
class Audit(ColumnSet):
    """One entry per range that ended on its thread, by start; times in ns, MISSING if there is none.

    - ``row``: position among the whole capture's NVTX events
    - ``verdict``: number in VERDICTS
    - ``warm_up``: marks ranges that load a module or hold the first launch of a kernel in its process
    - ``launches``: calls that launched GPU work; ``adopted``: those of them made by other threads
    - ``should_ns``: the time that the range should have reported
    - ``api_ns``, ``sync_ns``: time in API calls, and in synchronizing calls
    - ``own_gpu_ns``: sum of the durations of the own operations; ``own_busy_ns``: time in which any ran
    - ``own_end_after_ns``: from the range's end to the end of own work; negative if own work ended first
    - ``earlier_ns``: from the range's start to the end of earlier work
    - ``other_ns``: time in which other work ran
    - ``uncaused_ns``: the part of it launched by threads of the process without ranges of the program's own
    - ``reported_ns``, ``events_ns``: host time and CUDA event time that nsyswrap.measure reported
    """

    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    verdict: NDArray[Any]
    warm_up: NDArray[Any]
    launches: NDArray[Any]
    should_ns: NDArray[Any]
    api_ns: NDArray[Any]
    sync_ns: NDArray[Any]
    own_gpu_ns: NDArray[Any]
    own_busy_ns: NDArray[Any]
    own_end_after_ns: NDArray[Any]
    earlier_ns: NDArray[Any]
    other_ns: NDArray[Any]
    reported_ns: NDArray[Any]
    events_ns: NDArray[Any]
    adopted: NDArray[Any]
    uncaused_ns: NDArray[Any]

    @property
    def host_ns(self) -> NDArray[Any]:
        """The duration of each range in ns."""
        return self.end_ns - self.start_ns  # type: ignore[no-any-return]


@per_capture
def audit(capture: Capture) -> Audit:
    """Return the selected ranges, judged by the calls and the GPU work of the whole capture.

    Raises NotInCapture if there are too many threads with ranges.
    """
    if capture is capture.whole:
        return _audit(capture)
    every = audit(capture.whole)
    return every.of(np.isin(every.row, capture.columns("nvtx", "row")["row"] - 1))


def _audit(whole: Capture) -> Audit:
    rows, ranges = closed_ranges(whole)
    threads, hint = ascending(ranges.thread), "-r nvtx_gpu_proj_sum has the GPU time of their ranges"
    check_number(len(threads), _MOST_THREADS, "threads with NVTX ranges", hint)
    measured = measured_times(whole, rows, ranges)
    parts, places = [], []
    for marks, threads in launched_for(whole, ranges.thread, _calls(whole).thread):
        mine = np.flatnonzero(marks)
        part = Spans(*(field[mine] for field in ranges))
        parts.append(_judged(whole, rows[mine], part, threads, tuple(times[mine] for times in measured)))
        places.append(mine)
    every = Audit(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Audit)))
    return every.of(np.argsort(np.concatenate(places)))


def _calls(whole: Capture) -> Spans:
    return Spans(*whole.columns("api", "global_tid", "start_ns", "end_ns").values())


def _judged(
    whole: Capture,
    rows: NDArray[Any],
    ranges: Spans,
    threads: NDArray[Any],
    measured: tuple[NDArray[Any], ...],
) -> Audit:
    """Judge ranges; ``threads`` has the thread that the launches of each call count for."""
    calls = _calls(whole)
    counting = calls._replace(thread=threads)
    inside = EnclosedCalls(counting, ranges)
    operations = operations_of(whole, counting)
    own = own_work(operations, inside)
    near = nearby_work(operations, ranges, own, ranging_threads(whole))
    api_ns, sync_ns, waited_ns = _waits(whole, calls, ranges, own, near)
    verdict, should_ns = _judge(ranges, calls, own, near, waited_ns)
    worked = own.launches > 0
    # Calls with the first launch of a kernel, and those that load modules or contexts.
    names = call_names(whole)
    loads = [call_class(name) == LOAD and not re.search(_NO_LOAD, name or "") for name in names.texts]
    uses: NDArray[Any] = np.array(loads, dtype=bool)[names.codes]
    launches = launches_of(whole)
    uses[launches.call[launches.first]] = True
    launching = np.zeros(len(calls.start), dtype=bool)
    launching[operations.call[operations.call >= 0]] = True
    return Audit(
        row=rows,
        start_ns=ranges.start,
        end_ns=ranges.end,
        verdict=verdict,
        warm_up=inside.sum(uses) > 0,
        launches=own.launches,
        should_ns=should_ns,
        api_ns=api_ns,
        sync_ns=sync_ns,
        own_gpu_ns=own.gpu,
        own_busy_ns=own.busy,
        own_end_after_ns=np.where(worked, own.end - ranges.end, MISSING),
        earlier_ns=near.earlier,
        other_ns=near.other,
        reported_ns=measured[0],
        events_ns=measured[1],
        adopted=inside.sum(launching & (counting.thread != calls.thread)),
        uncaused_ns=near.uncaused,
    )


def _waits(
    whole: Capture, calls: Spans, ranges: Spans, work: OwnWork, near: NearbyWork
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return each range's time in calls, in synchronizing calls, and in those that wait for earlier work.

    The last counts only calls before the first launch.
    """
    (call_start, call_end), (start, end) = one_axis(calls, ranges)
    waits = call_classes(whole) == CLASSES.index(SYNCHRONISE)
    every, waiting = union(call_start, call_end), union(call_start[waits], call_end[waits])
    first_launch = np.where(work.launches > 0, calls.start[work.first_call], ranges.end)
    length = np.minimum(first_launch - ranges.start, near.earlier)
    return every.within(start, end), waiting.within(start, end), waiting.within(start, start + length)


def _judge(
    ranges: Spans, calls: Spans, work: OwnWork, near: NearbyWork, waited_ns: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each range's verdict, and the time it should have reported in ns."""
    worked, busy = work.launches > 0, near.earlier > TOLERANCE_NS
    late = worked & (work.end - ranges.end > TOLERANCE_NS)
    kinds = {
        MIXED: worked & busy & late,
        EARLIER: busy & np.where(worked, ~late, waited_ns > TOLERANCE_NS),
        LAUNCH_ONLY: worked & ~busy & late,
        COMPLETE: worked & ~busy & ~late,
    }
    verdict = np.select(
        list(kinds.values()), [VERDICTS.index(kind) for kind in kinds], VERDICTS.index(NOTHING)
    )
    begins, returns = calls.start[work.first_call], calls.end[work.first_call]
    ready = np.where(work.first_start < returns, begins, returns)
    blocked_until = np.minimum(ranges.start + near.earlier, near.before_own)
    dependency = np.where(worked, np.maximum(blocked_until, ready) - ready, 0)
    lost = np.where(kinds[MIXED] | kinds[EARLIER], waited_ns + dependency, 0)
    return verdict, np.where(late, work.end, ranges.end) - ranges.start - lost
