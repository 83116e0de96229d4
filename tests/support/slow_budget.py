"""The time of each state of a device, by looking at every instant at which anything begins or ends.

Between two such instants nothing changes, so that one look each is as exact as a look at every nanosecond.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from raw_events import TABLES, Call, Events, Operation
from tiny_export import KERNEL

from nsyswrap.analysis.names import call_class

LATER = ("fft_kernel",)  # in columns behind all others
# What is looked for first, written here once more.
COMPUTE = (
    *("attention_kernel", "convolution_kernel", "copy_kernel", "elementwise_kernel", "gemm_kernel"),
    *("norm_kernel", "reduce_kernel", "rng_kernel", "softmax_kernel", "sort_kernel", "other_kernel", "graph"),
    *LATER,
)
BUSY = (*COMPUTE, "communication", "memcpy")
DOING = ("profiler", "load", "allocate", "synchronise", "launch", "copy", "call", "host")
IDLE = (*DOING, "queued", "migration", "unknown", "other_process")

COLUMNS = (
    *("start_ns", "duration_ns", "busy_ns", "compute_ns"),
    *(f"{state}_ns" for state in COMPUTE if state not in LATER),
    *("communication_exposed_ns", "copy_exposed_ns", "idle_ns"),
    *(f"idle_{cause}_ns" for cause in IDLE),
    *("communication_overlapped_ns", "copy_overlapped_ns"),
    *(f"{state}_ns" for state in LATER),
)


class Slow(NamedTuple):
    """The events of an export, and the longest time from a call's return to its operation, in ns."""

    events: Events
    latency_ns: float

    def devices(self) -> list[tuple[int, int]]:
        """Return each pair of process and device, in order."""
        return sorted({(one.process, one.device) for one in self.events.operations})

    def span(self, process: int, device: int) -> tuple[int, int]:
        """Return the start of the first operation and the end of the last one."""
        mine = [one for one in self.events.operations if (one.process, one.device) == (process, device)]
        return mine[0].start, max(one.end for one in mine)

    def budget(self, process: int, device: int, start: int, end: int) -> dict[str, int]:
        """Return the columns of one row for one interval."""
        [row] = self.budgets(process, device, [(start, end)])
        return row

    def budgets(
        self, process: int, device: int, intervals: Sequence[tuple[int, int]]
    ) -> list[dict[str, int]]:
        """Return the columns of one row for each interval; these do not overlap."""
        operations, doing = self.events.operations, self.events.doing
        edges = {edge for interval in intervals for edge in interval}
        edges |= {edge for one in operations for edge in (one.start, one.end)}
        edges |= {edge for _, start, end, _ in doing for edge in (start, end)}
        calls = [one.call for one in operations if one.call]
        edges |= {edge for call in calls for edge in (call.start, call.end)}
        latest = [one for one in operations if (one.process, one.device) == (process, device)]
        starts = [one.start for one in latest]
        by_end = sorted(range(len(latest)), key=lambda i: (latest[i].end, i))
        ends = [latest[i].end for i in by_end]
        times = sorted(edges)
        active = _Active(operations, doing, device)
        rows = {interval: dict.fromkeys(COLUMNS, 0) for interval in intervals}
        first = 0
        for now, until in pairwise(times):
            active.advance(now)
            while first < len(intervals) and intervals[first][1] <= now:
                first += 1
            if first == len(intervals) or now < intervals[first][0]:
                continue
            after = bisect_left(starts, until)
            before = bisect_left(ends, now + 1) - 1
            columns = self._states(
                now,
                active,
                process,
                latest[by_end[before]] if before >= 0 else None,
                latest[after] if after < len(latest) else None,
            )
            row = rows[intervals[first]]
            for column in columns:
                row[column] += until - now
        for (start, end), row in rows.items():
            row["start_ns"], row["duration_ns"] = start, end - start
        return list(rows.values())

    def _states(
        self, now: int, active: _Active, process: int, before: Operation | None, after: Operation | None
    ) -> list[str]:
        """Return the columns to which the time from now to the next change belongs."""
        running = active.running[process]
        state = next((state for state in BUSY if running[state]), None)
        if state is None:
            return ["idle_ns", f"idle_{self._cause(now, active, process, before, after)}_ns"]
        computes = state in COMPUTE
        columns = ["busy_ns", *(["compute_ns", f"{state}_ns"] if computes else [])]
        columns += ["communication_exposed_ns"] if state == "communication" else []
        columns += ["copy_exposed_ns"] if state == "memcpy" else []
        columns += ["communication_overlapped_ns"] if computes and running["communication"] else []
        columns += ["copy_overlapped_ns"] if state != "memcpy" and running["memcpy"] else []
        return columns

    def _cause(
        self, now: int, active: _Active, process: int, before: Operation | None, after: Operation | None
    ) -> str:
        cause = self._own_cause(now, active, before, after)
        others = any(sum(states.values()) for other, states in active.running.items() if other != process)
        return "other_process" if cause in ("queued", "unknown") and others else cause

    def _own_cause(self, now: int, active: _Active, before: Operation | None, after: Operation | None) -> str:
        if after is None:
            return active.doing(before.call.thread) if before and before.call else "unknown"
        if after.call is None:
            return "migration" if after.migration else "unknown"
        call = after.call
        own = "launch" if after.state != "memcpy" or call_class(call.name) == "launch" else "copy"
        if now < call.end and not (before and call.end <= before.end):
            doing = active.doing(call.thread)
            return doing if now < call.start or doing in ("profiler", "load") else own
        waited = after.start - call.end > self.latency_ns
        return "queued" if waited or (before and call.end <= before.end) else own


class _Active:
    """What goes on at one time: operations by process and state on one device, activities by thread."""

    def __init__(
        self, operations: Iterable[Operation], doing: Iterable[tuple[int, int, int, str]], device: int
    ) -> None:
        self.running: dict[int, Counter[str]] = {}
        self._doing: dict[int, Counter[str]] = {}
        changes: list[tuple[int, int, Counter[str], str]] = []
        for one in operations:
            states = self.running.setdefault(one.process, Counter())
            if one.device == device:
                changes += [(one.start, 1, states, one.state), (one.end, -1, states, one.state)]
        for thread, start, end, activity in doing:
            activities = self._doing.setdefault(thread, Counter())
            changes += [(start, 1, activities, activity), (end, -1, activities, activity)]
        self._changes = sorted(changes, key=lambda change: change[0], reverse=True)

    def advance(self, now: int) -> None:
        while self._changes and self._changes[-1][0] <= now:
            _, more, counter, name = self._changes.pop()
            counter[name] += more

    def doing(self, thread: int) -> str:
        activities = self._doing.get(thread, Counter())
        return next((activity for activity in DOING if activities[activity]), "host")


def slow_budget(events: Events) -> Slow:
    """Return the second opinion on an export's events."""
    return Slow(events, _longest_latency(events))


def _longest_latency(events: Events) -> float:
    """Three times the median launch latency of repeated launches on an idle stream, or of all operations."""
    operations: dict[Call, tuple[Operation, int | None]] = {}
    stream_end: dict[tuple[int, ...], int] = {}
    every, latencies, seen = [], [], set()
    for one in events.operations:
        previous = stream_end.get(one.stream)
        if not one.migration:
            stream_end[one.stream] = max(one.end, previous if previous is not None else one.end)
        if one.call and (previous is None or previous <= one.call.start):
            every.append(one.start - one.call.start)
        if one.call and (TABLES[one.table] == KERNEL or one.graph is not None):
            operations.setdefault(one.call, (one, previous))
    for call in sorted(operations, key=lambda call: (call.start, call.row)):
        one, previous = operations[call]
        key = (one.name if one.graph is None else None, one.graph, one.process)
        if key in seen and (previous is None or previous <= call.start):
            latencies.append(one.start - call.start)
        seen.add(key)
    return 3 * statistics.median(latencies or every or [0])
