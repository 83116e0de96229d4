"""Whether the time of an NVTX range is that of the GPU work launched in it: one judgement per range.

The GPU works behind the host: a range can end before what it launched, and can wait for what was launched
before it. `range_work` tells its own work from earlier and from other work; an operation that ends later than
the range, or earlier work that ends after its start, makes the verdict.

The time that a range should have reported lasts from its start to the end of its own work, or to its own end
if that is later, less what it lost to earlier work. Lost is the time in synchronising calls before its first
launch, as long as earlier work was running; and from the return of that launch on, the wait for what ended
before its first operation started. Where that started before the call returned, as in blocking copies, the
wait is counted from the start of the call.

Times of the GPU are converted to the clock of the CPU, which is good to about 1 us: what ends no more than
TOLERANCE_NS after a range's start or end was over by then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from nsyswrap.analysis.api_call_kinds import CLASSES, LOAD, SYNCHRONISE, call_classes, classify
from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.arrays.spans import Inside, Spans, one_axis
from nsyswrap.analysis.launches import launches_of
from nsyswrap.analysis.nvtx_ranges import ALL, launched_for
from nsyswrap.analysis.timing_audit.measured import reported
from nsyswrap.analysis.timing_audit.range_work import around, operations_of, own_work
from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.timing_audit.range_work import Around, Operations, Own
    from nsyswrap.capture.capture import Capture

TOLERANCE_NS = 1000
COMPLETE, LAUNCH_ONLY, EARLIER, MIXED, NOTHING = VERDICTS = (
    "complete",
    "launch only",
    "includes earlier work",
    "mixed",
    "no GPU work",
)
_NO_LOAD = "Get|Set"  # in the names of calls that only ask about what was loaded, or are made again and again


@dataclass(frozen=True)
class Audit:
    """One entry per closed range of one thread, in order of start; times in ns, MISSING where there is none.

    ``row`` is the position among the whole capture's NVTX events; ``verdict`` the number in VERDICTS;
    ``warm_up`` marks ranges with the first launch of a kernel in its process, or that load a module;
    ``launches`` counts calls. ``own_gpu_ns`` adds the own operations up, ``own_busy_ns`` is the time in which
    any ran, ``own_end_after_ns`` how long after the range they ended (negative: before). ``earlier_ns`` is
    how long after the range's start earlier work ended, ``other_ns`` the time in which other work ran.
    ``reported_ns`` and ``events_ns`` are what nsyswrap.measure found. ``adopted`` counts the launches by
    other threads.
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

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self.row)

    def of(self, rows: NDArray[Any]) -> Audit:
        """Return these ranges, by position or mark."""
        return Audit(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def host_ns(self) -> NDArray[Any]:
        """How long each range was."""
        return self.end_ns - self.start_ns  # type: ignore[no-any-return]


_known: WeakKeyDictionary[Capture, Audit] = WeakKeyDictionary()


def audit(capture: Capture) -> Audit:
    """Return the ranges that are selected, judged by the calls and the GPU work of the whole capture."""
    if capture not in _known:
        whole = capture.whole
        if capture is whole:
            _known[capture] = _audit(whole)
        else:
            every = audit(whole)
            _known[capture] = every.of(np.isin(every.row, capture.columns("nvtx", "row")["row"] - 1))
    return _known[capture]


def _audit(whole: Capture) -> Audit:
    rows, ranges = closed_ranges(whole)
    told = reported(whole, rows, ranges)
    parts, places = [], []
    for marks, threads in launched_for(whole, ranges.thread, _calls(whole).thread):
        mine = np.flatnonzero(marks)
        part = Spans(*(field[mine] for field in ranges))
        parts.append(_judged(whole, rows[mine], part, threads, tuple(times[mine] for times in told)))
        places.append(mine)
    every = Audit(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Audit)))
    return every.of(np.argsort(np.concatenate(places)))


def _calls(whole: Capture) -> Spans:
    return Spans(*whole.columns("api", "global_tid", "start_ns", "end_ns").values())


def _judged(
    whole: Capture, rows: NDArray[Any], ranges: Spans, threads: NDArray[Any], told: tuple[NDArray[Any], ...]
) -> Audit:
    """Judge ranges; ``threads`` are those that the launches of each call count for."""
    calls = _calls(whole)
    counting = calls._replace(thread=threads)
    inside = Inside(counting, ranges)
    operations = operations_of(whole, counting)
    own = own_work(operations, inside)
    near = around(operations, ranges, own)
    api_ns, sync_ns, waited_ns = _waits(whole, calls, ranges, own, near)
    verdict, should_ns = _judge(ranges, calls, own, near, waited_ns)
    worked = own.launches > 0
    return Audit(
        row=rows,
        start_ns=ranges.start,
        end_ns=ranges.end,
        verdict=verdict,
        warm_up=inside.sum(_first_uses(whole)) > 0,
        launches=own.launches,
        should_ns=should_ns,
        api_ns=api_ns,
        sync_ns=sync_ns,
        own_gpu_ns=own.gpu,
        own_busy_ns=own.busy,
        own_end_after_ns=np.where(worked, own.end - ranges.end, MISSING),
        earlier_ns=near.earlier,
        other_ns=near.other,
        reported_ns=told[0],
        events_ns=told[1],
        adopted=inside.sum(_launching(operations, len(calls.start)) & (counting.thread != calls.thread)),
    )


def closed_ranges(whole: Capture) -> tuple[NDArray[Any], Spans]:
    """Return positions and spans of the ranges that ended on the thread they began on, in order of start."""
    fields = ("event_type", "start_ns", "end_ns", "global_tid", "end_global_tid")
    events = whole.columns("nvtx", *fields)
    closed = np.isin(events["event_type"], ALL) & (events["end_ns"] >= events["start_ns"])  # MISSING is less
    closed &= (events["end_global_tid"] == MISSING) | (events["end_global_tid"] == events["global_tid"])
    closed &= events["global_tid"] != MISSING
    rows = np.flatnonzero(closed)
    rows = rows[np.argsort(events["start_ns"][rows], kind="stable")]
    return rows, Spans(*(events[field][rows] for field in ("global_tid", "start_ns", "end_ns")))


def _launching(operations: Operations, calls: int) -> NDArray[Any]:
    marks = np.zeros(calls, dtype=bool)
    marks[operations.call[operations.call >= 0]] = True
    return marks


def _first_uses(whole: Capture) -> NDArray[Any]:
    """Mark the API calls that launched a kernel for the first time, or loaded something."""
    ids, positions = distinct(whole.name_ids("api"))
    names = [whole.text(i) or "" for i in ids.tolist()]
    loads = [classify(name) == LOAD and not re.search(_NO_LOAD, name) for name in names]
    marks: NDArray[Any] = np.array(loads, dtype=bool)[positions]
    launches = launches_of(whole)
    marks[launches.call[launches.first]] = True
    return marks


def _waits(
    whole: Capture, calls: Spans, ranges: Spans, own: Own, near: Around
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return time in calls, in synchronising calls, and in those before the first launch for earlier work."""
    (call_start, call_end), (start, end) = one_axis(calls, ranges)
    waits = call_classes(whole) == CLASSES.index(SYNCHRONISE)
    every, waiting = union(call_start, call_end), union(call_start[waits], call_end[waits])
    first_launch = np.where(own.launches > 0, calls.start[own.first_call], ranges.end)
    length = np.minimum(first_launch - ranges.start, near.earlier)
    return every.within(start, end), waiting.within(start, end), waiting.within(start, start + length)


def _judge(
    ranges: Spans, calls: Spans, own: Own, near: Around, waited_ns: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each range's verdict, and what it should have reported."""
    worked, busy = own.launches > 0, near.earlier > TOLERANCE_NS
    late = worked & (own.end - ranges.end > TOLERANCE_NS)
    kinds = {
        MIXED: worked & busy & late,
        EARLIER: busy & np.where(worked, ~late, waited_ns > TOLERANCE_NS),
        LAUNCH_ONLY: worked & ~busy & late,
        COMPLETE: worked & ~busy & ~late,
    }
    verdict = np.select(
        list(kinds.values()), [VERDICTS.index(kind) for kind in kinds], VERDICTS.index(NOTHING)
    )
    begins, returns = calls.start[own.first_call], calls.end[own.first_call]
    ready = np.where(own.first_start < returns, begins, returns)
    blocked_until = np.minimum(ranges.start + near.earlier, near.before_own)
    dependency = np.where(worked, np.maximum(blocked_until, ready) - ready, 0)
    lost = np.where(kinds[MIXED] | kinds[EARLIER], waited_ns + dependency, 0)
    return verdict, np.where(late, own.end, ranges.end) - ranges.start - lost
