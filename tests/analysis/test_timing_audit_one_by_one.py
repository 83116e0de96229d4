"""The audit over columns says what plain loops over ranges say, on small captures drawn by lot."""

import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sampled import sampled
from tiny_export import Row, call, global_id, kernel, nvtx, opened

from nsyswrap.analysis.timing_audit import TOLERANCE_NS, VERDICTS, Audit, audit
from nsyswrap.base.constants import MISSING

LAUNCH, WAIT = "cudaLaunchKernel", "cudaStreamSynchronize"
STEP = 400  # ns: times are multiples of it, so that many are equal and some differences are tolerated
LENGTH = 30 * STEP
Thread = tuple[int, int]  # process and thread id


class Call(NamedTuple):
    thread: Thread
    name: str
    start: int
    end: int


class Operation(NamedTuple):
    call: int | None
    process: int
    device: int
    stream: int
    start: int
    end: int


class Range(NamedTuple):
    thread: Thread
    start: int
    end: int
    domain: int


class Item(NamedTuple):
    start: int
    end: int
    call: int | None


class Drawn(NamedTuple):
    calls: list[Call]
    operations: list[Operation]
    ranges: list[Range]

    def rows(self) -> list[Row]:
        """The capture; an operation's correlation id is its call's number, the same in every process."""
        correlation: dict[int, int] = {}
        for i, made in enumerate(self.calls):
            correlation[i] = 1 + sum(other.thread[0] == made.thread[0] for other in self.calls[:i])
        calls = [
            call(made.name, made.start, made.end, correlation[i], pid=made.thread[0], tid=made.thread[1])
            for i, made in enumerate(self.calls)
        ]
        ran = [
            kernel(
                "k", ran.start, ran.end, 999 if ran.call is None else correlation[ran.call], pid=ran.process
            )
            for ran in self.operations
        ]
        placed = [
            Row(row.table, {**row.cells, "deviceId": ran.device, "streamId": ran.stream})
            for row, ran in zip(ran, self.operations, strict=True)
        ]
        return [*calls, *placed, *(_nvtx(one) for one in self.ranges)]


def _nvtx(one: Range) -> Row:
    return nvtx("r", one.start, one.end, globalTid=global_id(*one.thread), domainId=one.domain)


def drawn(seed: int) -> Drawn:
    dice = random.Random(seed)  # noqa: S311 - no secret

    def span(longest: int) -> tuple[int, int]:
        start = STEP * dice.randrange(LENGTH // STEP)
        return start, start + STEP * dice.randrange(longest)

    threads = [(100, 100), (100, 101), (200, 200)][: dice.randrange(1, 4)]
    calls, taken = [], set()
    for _ in range(dice.randrange(1, 14)):
        thread, (start, end) = dice.choice(threads), span(6)
        if (thread, start) not in taken:  # two launches at once would leave open which is the first
            taken.add((thread, start))
            calls.append(Call(thread, dice.choice((LAUNCH, LAUNCH, WAIT)), start, end))
    operations = []
    for i, made in enumerate(calls):
        for _ in range(dice.choice((1, 1, 2)) if made.name == LAUNCH else 0):
            start = made.start + STEP * dice.randrange(8)
            ends = start + STEP * dice.randrange(1, 8)
            operations.append(
                Operation(i, made.thread[0], dice.randrange(2), dice.choice((7, 7, 8)), start, ends)
            )
    operations += [Operation(None, 100, 0, 7, *span(4)) for _ in range(dice.randrange(2))]
    ranges = [
        Range(dice.choice(threads), *span(12), dice.choice((0, 0, 1))) for _ in range(dice.randrange(1, 9))
    ]
    return Drawn(calls, operations, sorted(ranges, key=lambda one: one.start))


def in_turns(seed: int) -> Drawn:
    """Two threads that take turns in ranges of the first one; now and then a call comes out of turn."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    main, worker = (100, 100), (100, 101)
    calls, ranges, time = [], [], 0
    for _ in range(dice.randrange(2, 7)):
        began = time
        for thread in (main, worker, main):
            for _ in range(dice.randrange(1, 4)):
                time += STEP * dice.randrange(1, 4)
                out_of_turn = dice.random() < 0.06
                calls.append(Call(worker if out_of_turn else thread, LAUNCH, time, time + STEP))
            time += STEP * dice.randrange(1, 8)
        ranges.append(Range(main, began, time, 0))
        time += STEP
    if dice.random() < 0.3:
        ranges += [Range(worker, made.start, made.end + STEP, 0) for made in calls if made.thread == worker]
    streams = {main: 7, worker: dice.choice((7, 8))}
    operations = [
        Operation(i, 100, 0, streams[made.thread], made.end + STEP, made.end + STEP * dice.randrange(2, 9))
        for i, made in enumerate(calls)
    ]
    return Drawn(calls, operations, sorted(ranges, key=lambda one: one.start))


def union(spans: list[tuple[int, int]], start: int = 0, end: int = 1000 * STEP) -> int:
    """How many steps from ``start`` to ``end`` any of the spans holds, one after another."""
    ticks = {tick for first, last in spans for tick in range(max(first, start), min(last, end), STEP)}
    return STEP * len(ticks)


def own_of(capture: Drawn, thread: Thread) -> list[Range]:
    """The ranges of a thread that are the program's own: those of domain 0, if its process has any."""
    process = [one for one in capture.ranges if one.thread[0] == thread[0]]
    own = [one for one in process if one.domain == 0] or process
    return [one for one in own if one.thread == thread]


def bursts(items: list[Item], events: list[tuple[int, int]]) -> list[list[Item]]:
    """The calls and ranges of a worker, divided at unusually long pauses around a caller's event."""

    def passed(item: Item) -> int:
        return sum(start <= item.start for start, _ in events)

    parts = [[item] for item in items[:1]]
    pauses = [
        max(0, item.start - max(before.end for before in items[: i + 1])) for i, item in enumerate(items[1:])
    ]
    usual = [
        pause for pause, one, two in zip(pauses, items, items[1:], strict=False) if passed(one) == passed(two)
    ]
    limit = -1.0
    if usual:
        ninety = sorted(usual)[-(-9 * len(usual) // 10) - 1]
        limit = max(ninety, 2 * statistics.median(usual))
    for pause, one, two in zip(pauses, items, items[1:], strict=False):
        if passed(one) != passed(two) and pause > limit:
            parts.append([])
        parts[-1].append(two)
    return parts


class Pair:
    """What one thread, the worker, does for another one, the caller."""

    def __init__(self, capture: Drawn, caller: Thread, worker: Thread) -> None:
        self.mine = own_of(capture, caller)
        events = [(made.start, made.end) for made in capture.calls if made.thread == caller]
        borders = [time for one in capture.ranges if one.thread == caller for time in (one.start, one.end)]
        self.events = sorted([*events, *((time, time) for time in borders)])
        calls = [
            Item(made.start, made.end, i) for i, made in enumerate(capture.calls) if made.thread == worker
        ]
        ranges = [Item(one.start, one.end, None) for one in own_of(capture, worker)]
        items = sorted([*sorted(calls, key=lambda item: item.start), *ranges], key=lambda item: item.start)
        parts = bursts(items, self.events)
        held = [part for part in parts if self.holds(part)]
        near = [part for part in parts if any(item.call is None or self.around(item.start) for item in part)]
        self.share = len(held) / max(len(near), 1)
        around = {id(self.around(part[0].start)[-1]) for part in held}
        regular = bool(held) and len(around) >= 0.9 * len(self.mine)  # all ranges have the same name
        enough = self.share >= 0.9 and regular and len(held) >= (2 if ranges else 1)
        self.silence = statistics.mean([self.length(part[0].start) for part in held]) if enough else 0
        self.caused = [item.call for part in held for item in part if item.call is not None and enough]

    def around(self, time: int) -> list[Range]:
        """The ranges in which this time is, the innermost last."""
        return [one for one in self.mine if one.start <= time < one.end]

    def length(self, time: int) -> int:
        """The time between the caller's events around a time at which it is silent."""
        before = max(end for start, end in self.events if start <= time)
        return min(start for start, _ in self.events if start > time) - before

    def holds(self, part: list[Item]) -> bool:
        first, last = min(item.start for item in part), max(item.end for item in part)
        if not all(self.around(item.start) for item in part):
            return False
        for item in part:
            apart = item.call is None  # a range does not touch an event of the caller
            for start, end in self.events:
                if start <= item.start and end > item.start - apart:
                    return False
                if start > item.start and start < item.end + apart:
                    return False
        return not any(first < start <= last for start, _ in self.events if start < part[-1].start + 1)


def causes(capture: Drawn) -> dict[int, Thread]:
    """The thread that caused each call which another thread made."""
    threads = sorted({made.thread for made in capture.calls})
    callers = sorted({one.thread for made in threads for one in own_of(capture, made)} | callers_of(capture))
    pairs = [
        (Pair(capture, caller, worker), caller)
        for caller in callers
        for worker in threads
        if worker != caller and worker[0] == caller[0]
    ]
    found: dict[int, Thread] = {}
    for pair, caller in sorted(pairs, key=lambda one: one[0].silence):
        for call_number in pair.caused:
            found.setdefault(call_number, caller)
    return {
        number: caller
        for number, caller in found.items()
        if capture.calls[number].thread not in found.values()
    }


def callers_of(capture: Drawn) -> set[Thread]:
    return {one.thread for one in capture.ranges if one in own_of(capture, one.thread)}


class Loops:
    """The definitions, word by word, for one range."""

    def __init__(self, capture: Drawn, one: Range) -> None:
        self.calls, self.one = capture.calls, one
        caused = causes(capture)
        adopting = one.thread in caused.values()
        self.thread_of = [
            caused.get(i, made.thread) if adopting else made.thread for i, made in enumerate(self.calls)
        ]
        everything = capture.operations
        self.own = [ran for ran in everything if self.launched_here(ran)]
        ran_there = [ran for ran in everything if ran.process == one.thread[0]]
        devices = {ran.device for ran in self.own or ran_there}
        near = [ran for ran in ran_there if ran.device in devices]
        mine = [ran for ran in ran_there if ran.call is not None and self.thread_of[ran.call] == one.thread]
        streams = {(ran.device, ran.stream) for ran in mine}
        self.process = [
            ran for ran in near if ran.call is None or (ran.device, ran.stream) in streams or not streams
        ]
        older = [ran for ran in self.process if self.launch_time(ran) < one.start]
        self.earlier = [ran for ran in older if one.start < ran.end]
        used = {ran.device for ran in near}
        self.other = [
            ran
            for ran in everything
            if ran.device in used
            and ran not in older
            and (ran not in self.process or self.not_mine(ran))
            and (ran not in self.process or one.start <= self.launch_time(ran) < one.end)
        ]
        self.earlier_end = max([one.start, *(ran.end for ran in self.earlier)])

    def not_mine(self, ran: Operation) -> bool:
        return ran.call is None or self.thread_of[ran.call] != self.one.thread

    def launched_here(self, ran: Operation) -> bool:
        return (
            ran.call is not None
            and self.one.start <= self.calls[ran.call].start < self.one.end
            and self.thread_of[ran.call] == self.one.thread
        )

    def launch_time(self, ran: Operation) -> int:
        return ran.start if ran.call is None else self.calls[ran.call].start

    def in_calls(self, end: int, *names: str) -> int:
        mine = [made for made in self.calls if made.thread == self.one.thread and made.name in names]
        return union([(made.start, made.end) for made in mine], self.one.start, end)

    def judged(self) -> dict[str, Any]:
        start, end = self.one.start, self.one.end
        own_end = max((ran.end for ran in self.own), default=None)
        calls = sorted(
            {ran.call for ran in self.own if ran.call is not None}, key=lambda i: self.calls[i].start
        )
        first = self.calls[calls[0]] if calls else None
        waited = self.in_calls(min(first.start if first else end, self.earlier_end), WAIT)
        busy, late = self.earlier_end - start > TOLERANCE_NS, (own_end or 0) - end > TOLERANCE_NS
        if first:
            verdict = (
                ("mixed" if late else "includes earlier work")
                if busy
                else "launch only"
                if late
                else "complete"
            )
        else:
            verdict = "includes earlier work" if busy and waited > TOLERANCE_NS else "no GPU work"
        lost = 0
        if verdict in {"mixed", "includes earlier work"}:
            lost = waited + (self.dependency(calls[0]) if first else 0)
        return {
            "verdict": verdict,
            "launches": len(calls),
            "should_ns": (own_end if late and own_end else end) - start - lost,
            "api_ns": self.in_calls(end, LAUNCH, WAIT),
            "sync_ns": self.in_calls(end, WAIT),
            "own_gpu_ns": sum(ran.end - ran.start for ran in self.own),
            "own_busy_ns": union([(ran.start, ran.end) for ran in self.own]),
            "own_end_after_ns": MISSING if own_end is None else own_end - end,
            "earlier_ns": self.earlier_end - start,
            "other_ns": union([(ran.start, ran.end) for ran in self.other], start, end),
        }

    def dependency(self, call_number: int) -> int:
        began = min(ran.start for ran in self.own if ran.call == call_number)
        before = max([0, *(ran.end for ran in self.process if ran.end <= began)])
        made = self.calls[call_number]
        return max(0, min(self.earlier_end, before) - (made.start if began < made.end else made.end))


def values(found: Audit, i: int) -> dict[str, Any]:
    names = ("launches", "should_ns", "api_ns", "sync_ns", "own_gpu_ns", "own_busy_ns")
    more = ("own_end_after_ns", "earlier_ns", "other_ns")
    numbers = {name: int(getattr(found, name)[i]) for name in (*names, *more)}
    return {"verdict": VERDICTS[found.verdict[i]], **numbers}


@pytest.mark.parametrize("draw", [drawn, in_turns])
@sampled("seed", range(120), fast=12)
def test_as_loops_say(seed: int, draw: Callable[[int], Drawn], tmp_path: Path) -> None:
    capture = draw(seed)
    found = audit(opened(tmp_path, *capture.rows()))
    expected = [Loops(capture, one).judged() for one in capture.ranges]
    assert [values(found, i) for i in range(len(found))] == expected


def test_some_of_the_drawn_threads_wait_for_others_and_some_do_not() -> None:
    caused = [bool(causes(in_turns(seed))) for seed in range(120)]
    assert sum(caused) in range(60, 115)
