"""The steps of each process, found once more: one call and one range at a time."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from statistics import quantiles
from typing import NamedTuple

from raw_events import PROCESS, TABLES, Call, Events, Range
from tiny_export import KERNEL, MEMCPY

from nsyswrap.analysis.names import call_class


class Work(NamedTuple):
    """A call that starts GPU work or waits for it, in order of start; ``does`` says which."""

    call: Call
    does: Hashable
    works: bool
    first: bool
    gpu_end: int
    before: int  # time since the end of all earlier ones


class SlowSteps(NamedTuple):
    """Steps of one process: start, end and mark ("steady", "outlier", "warm-up", "left out") of each."""

    process: int
    label: str
    times: list[tuple[int, int]]
    marks: list[str]
    pace: list[int]

    @property
    def steady(self) -> list[int]:
        """The numbers of the steps of the steady part: three or more, of similar times."""
        numbers = [i for i, mark in enumerate(self.marks) if mark in ("steady", "outlier")]
        if len(numbers) < 3:
            return []
        low, _, high = quantiles([self.pace[i] for i in numbers], n=4, method="inclusive")
        return numbers if high <= 5 * low else []


class Found(NamedTuple):
    """Occurrences of what repeats: starts, ends, and whether each launches something else than most."""

    label: str
    starts: list[int]
    ends: list[int]
    drains: bool
    differs: list[bool]
    first_use: bool
    single: bool = False


def slow_steps(events: Events) -> list[SlowSteps]:
    processes = sorted({one.process for one in events.operations if one.call})
    every = []
    for process in processes:
        works = _works(events, process)
        found = _repeated_range(events, works) or _repeated_sequence(works)
        every.append(_steps(process, found, works) if found else SlowSteps(process, "", [], [], []))
    return every


def _works(events: Events, process: int) -> list[Work]:
    does: dict[Call, Hashable] = {}
    ends: dict[Call, int] = {}
    kernels: set[Call] = set()
    for one in events.operations:
        if one.call is None:
            continue
        ends[one.call] = max(one.end, ends.get(one.call, one.call.end))
        launch = TABLES[one.table] == KERNEL or one.graph is not None
        if launch and one.call not in kernels:
            kernels.add(one.call)
            does[one.call] = ("launch", one.name if one.graph is None else None, one.graph)
        elif one.call not in kernels:
            does[one.call] = (TABLES[one.table], one.copy_kind if TABLES[one.table] == MEMCPY else None)
    works, seen, reached = [], set(), None
    for call in sorted(events.calls, key=lambda call: (call.start, call.row)):
        waits = call_class(call.name) == "synchronise"
        if call.thread & PROCESS != process or not (call in does or waits):
            continue
        what = does.get(call, ("wait", call.name))
        first = call in kernels and what not in seen
        seen.add(what)
        kind = what[:2] if call in kernels else what  # type: ignore[index]
        before = call.start - (reached if reached is not None else call.start)
        reached = max(call.end, call.end if reached is None else reached)
        works.append(Work(call, kind, call in does, first, ends.get(call, call.end), before))
    return works


def _repeated_range(events: Events, works: list[Work]) -> Found | None:
    launching = Counter(work.call.thread for work in works if work.works)
    threads = {thread for thread, count in launching.items() if count >= 0.1 * launching.total()}
    own = [one for one in events.ranges if one.thread in threads and not one.domain]
    launches = [work.call.start for work in works if work.works]
    candidates = []
    for thread, name in sorted({(one.thread, one.name) for one in own}):
        named = [one for one in own if (one.thread, one.name) == (thread, name)]
        outer: list[Range] = []
        for one in named:
            if not outer or one.start >= max(other.end for other in outer):
                outer.append(one)
        if len(outer) < 3:
            continue
        depth = statistics.mean(sum(_around(other, one) for other in own) for one in named)
        inside = sum(any(one.start <= start < one.end for one in outer) for start in launches)
        candidates.append((outer, round(depth), inside))
    for least in (10, 3):
        wide = [one for one in candidates if len(one[0]) >= least and _spans_much(one[0], launches)]
        if wide:
            outer, _, _ = min(wide, key=lambda one: (one[1], -one[2], one[0][0].start))
            return _range_occurrences(outer, works)
    return None


def _around(outer: Range, inner: Range) -> bool:
    here = outer.thread == inner.thread and outer is not inner
    return here and outer.start <= inner.start and inner.end <= outer.end and outer[:2] != inner[:2]


def _spans_much(outer: list[Range], launches: list[int]) -> bool:
    first, last = outer[0].start, outer[-1].end
    inside = sum(first <= start < last for start in launches)
    time = min(last, launches[-1]) - max(first, launches[0])
    part = max(inside / len(launches), time / max(launches[-1] - launches[0], 1))
    return inside > 0 and part >= 0.25


def _range_occurrences(outer: list[Range], works: list[Work]) -> Found:
    last = outer[-1]
    gpu_end = max((w.gpu_end for w in works if w.works and last.start <= w.call.start < last.end), default=0)
    starts = [one.start for one in outer]
    ends = [*starts[1:], max(last.end, gpu_end)]
    first_use = any(work.first and starts[0] <= work.call.start < ends[0] for work in works)
    return Found(f"'{last.name}'", starts, ends, gpu_end > last.end, [False] * len(outer), first_use)


class _Anchor(NamedTuple):
    positions: list[int]
    length: int
    equal: list[bool]
    gap: float


def _repeated_sequence(works: list[Work]) -> Found | None:
    anchors = []
    pause = 20 * statistics.median(work.before for work in works) if works else 0
    calls = [(work.does, paused) for paused in (False, True) for work in works]
    for does, paused in dict.fromkeys(calls):
        named = [i for i, work in enumerate(works) if work.does == does]
        positions = [i for i in named if i == 0 or works[i].before > pause] if paused else named
        if len(positions) < 3:
            continue
        spans = list(pairwise(positions))
        held = [frozenset(Counter(work.does for work in works[i:j]).items()) for i, j in spans]
        usual, times = Counter(held).most_common(1)[0]
        equal = [one == usual for one in held]
        start, end = spans[equal.index(True)]
        enough = times >= 2 and times >= 0.6 * len(held) and times * (end - start) >= 0.25 * len(works)
        if enough and any(work.works for work in works[start:end]):
            gap = statistics.median(works[i].before for i in positions[1:])
            anchors.append(_Anchor(positions, end - start, equal, gap))
    if not anchors:
        return None
    anchors = [one for one in anchors if len(one.positions) >= 10] or anchors
    fewest = min(len(one.positions) for one in anchors)
    period = [one for one in anchors if len(one.positions) <= fewest + 1]
    return _sequence_occurrences(works, max(period, key=lambda one: (sum(one.equal), one.gap)))


def _sequence_occurrences(works: list[Work], anchor: _Anchor) -> Found:
    positions = anchor.positions
    begin = positions[anchor.equal.index(True)]
    usual = works[begin : begin + anchor.length]
    starts = [works[i].call.start for i in positions]
    count = sum(work.works for work in usual)
    graph = any(work.works and work.does == ("launch", None) for work in usual)
    label = f"a sequence of {count:,} GPU operations" if count > 1 else "one GPU operation"
    label, single = ("one CUDA graph", False) if count == 1 and graph else (label, count == 1)
    first_use = any(work.first for work in works[positions[0] : positions[1]])
    last, differs = works[positions[-1] :][: anchor.length], [not same for same in anchor.equal]
    if Counter(work.does for work in last) == Counter(work.does for work in usual):
        differs.append(False)
    else:  # cut off by the end of the program: the one before it is the last
        last = works[positions[-2] : positions[-1]]
        starts.pop()
    host, end = max(work.call.end for work in last), max(work.gpu_end for work in last)
    ends = [*starts[1:], max(host, end)]
    return Found(label, starts, ends, end > host, differs[: len(starts)], first_use, single)


def _steps(process: int, found: Found, works: list[Work]) -> SlowSteps:
    durations = [end - start for start, end in zip(found.starts, found.ends, strict=True)]
    count, half = len(durations), len(durations) // 2
    pace = _pace(found, works)
    unusual = [_is_long(i, range(half, count), durations, pace) or found.differs[i] for i in range(count)]
    unusual[0] |= found.first_use
    warm_up = 0
    for number in range(half):
        if unusual[number]:
            if number > warm_up + 1:
                break
            warm_up = number + 1
    if warm_up >= half:
        warm_up = int(found.first_use)
    steady = _longest_run(durations, found.differs, warm_up)
    outliers = {i for i in steady if _is_long(i, steady, durations, pace) and not found.single}
    outliers -= {steady[-1]} if steady and found.drains and steady[-1] == count - 1 else set()
    outliers = outliers if len(outliers) <= 0.25 * len(steady) else set()
    mark: Callable[[int], str] = lambda i: (  # noqa: E731
        "warm-up" if i < warm_up else "outlier" if i in outliers else "steady" if i in steady else "left out"
    )
    times = list(zip(found.starts, found.ends, strict=True))
    return SlowSteps(process, found.label, times, [mark(i) for i in range(count)], pace)


def _pace(found: Found, works: list[Work]) -> list[int]:
    """Return the time from the completion of the step before to that of each, with all their GPU work."""
    done = [
        max([end, *(work.gpu_end for work in works if work.works and work.call.start < end)])
        for end in (found.starts[0], *found.ends)
    ]
    return [later - earlier for earlier, later in pairwise(done)]


def _is_long(i: int, usual: Sequence[int], *times: Sequence[int]) -> bool:
    return all(one[i] > 1.5 * statistics.median(one[j] for j in usual) for one in times)


def _longest_run(durations: Sequence[int], differs: Sequence[bool], warm_up: int) -> list[int]:
    after = list(range(warm_up, len(durations)))
    if not after:
        return []
    middle = statistics.median(durations[i] for i in after)
    breaks = [i for i in after if differs[i] and durations[i] > 20 * middle]
    if not 1 <= len(breaks) <= 2:
        return after
    runs: list[list[int]] = [[]]
    for i in after:
        if i in breaks:
            runs.append([])
        else:
            runs[-1].append(i)
    return max(reversed(runs), key=len)
