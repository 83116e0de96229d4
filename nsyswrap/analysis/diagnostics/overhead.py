"""Check the profiler's overhead: its total, and how much of it lengthened API calls and GPU idle time.

CUDA also reports some of its own work as overhead: compiling kernels and loading modules. That work happens
without a profiler too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import distinct, group_keys, text_codes
from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.diagnostics.check import info, unknown
from nsyswrap.analysis.finding import CheckResult
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.base.check import Level
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import IntervalSet
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.selection import global_process_ids
from nsyswrap.capture.stream import one_of

Covers = dict[int, IntervalSet]  # by global id of a thread or process

OVERHEAD, CUDA_OVERHEAD = "profiler overhead", "CUDA overhead"
MUCH_PERCENT = 10.0  # of the time in API calls or of the GPU idle time: a larger share is a warning
_FIELDS = (*SPANS, "global_tid", "name", "overhead_type")


class Overhead(NamedTuple):
    """Overhead events, times in ns. ``of_cuda`` marks what CUDA does without a profiler too.

    ``label`` numbers the texts that ``_events`` returns.
    """

    start: NDArray[Any]
    end: NDArray[Any]
    thread: NDArray[Any]
    label: NDArray[Any]
    of_cuda: NDArray[Any]

    def of(self, rows: NDArray[Any]) -> Overhead:
        """Return the events at these positions, or with True at theirs."""
        return Overhead._make(column[rows] for column in self)

    def covers(self, owner: NDArray[Any]) -> Covers:
        """Return the time that the events cover, for each distinct ``owner``."""
        rows = {one: owner == one for one in np.unique(owner).tolist()}
        return {one: union(self.start[mine], self.end[mine]) for one, mine in rows.items()}


def check_overhead(capture: Capture) -> Iterator[CheckResult]:
    """Yield the profiler's own work in total, then each label of overhead by time, the longest first."""
    events, labels = _events(capture)
    if not len(events.start):
        yield unknown(OVERHEAD, "no_overhead")
        return
    codes, keys = group_keys(events.label, events.of_cuda.astype(np.int64))
    by_label = [events.of(codes == code) for code in range(len(keys[0]))]
    calls, idle = _api_calls(capture), _idle(capture)
    parts = [events.of(~events.of_cuda), *by_label]
    totals = [_length(part.covers(part.thread)) for part in parts]
    in_api = _inside([part.covers(part.thread) for part in parts], calls)
    in_idle = _inside([part.covers(global_process_ids(part.thread)) for part in parts], idle)
    yield _total(len(parts[0].start), totals[0], (in_api[0], _length(calls)), (in_idle[0], _length(idle)))
    checks = []
    for group, total, api_ns, idle_ns in zip(by_label, totals[1:], in_api[1:], in_idle[1:], strict=True):
        label, of_cuda = labels[int(group.label[0])], bool(group.of_cuda[0])
        numbers = {"label": label, "of_cuda": of_cuda, "in_api_ns": api_ns, "in_idle_ns": idle_ns}
        subject = CUDA_OVERHEAD if of_cuda else OVERHEAD
        checks.append(info(subject, "overhead_label", len(group.start), total, **numbers))
    yield from sorted(checks, key=lambda check: -(check.time_ns or 0))


def _total(count: int, total: int, in_api: tuple[int, int], in_idle: tuple[int, int]) -> CheckResult:
    """Compare the profiler's work with API and idle time; each pair is a part and its whole, in ns."""
    is_much = any(whole and 100 * part >= MUCH_PERCENT * whole for part, whole in (in_api, in_idle))
    numbers = dict(zip(("in_api_ns", "api_ns", "in_idle_ns", "idle_ns"), (*in_api, *in_idle), strict=True))
    level: Level = "note" if is_much else "info"
    return CheckResult(level, OVERHEAD, "overhead", {**numbers, "is_much": is_much}, count, total)


def _events(capture: Capture) -> tuple[Overhead, list[str | None]]:
    """Return the events of both overhead tables, each once, and the text of each label."""
    kinds = [kind for kind in ("overhead", "cuda_overhead") if capture.has(kind)]
    parts = [capture.columns(kind, *_FIELDS) for kind in kinds]
    start, end, thread, name, overhead_type = (
        np.concatenate([np.empty(0, np.int64), *(part[field] for part in parts)]) for field in _FIELDS
    )
    label, labels = text_codes(name, lambda i: (capture.text(i) or "unnamed").partition("(")[0])
    events = Overhead(start, end, thread, label, one_of(overhead_type, schema.CUDA_OVERHEAD_TYPES))
    _, once = np.unique(np.stack(events[:4]), axis=1, return_index=True)
    return events.of(np.sort(once)), labels


def _api_calls(capture: Capture) -> Covers:
    """Return the time that each thread spent in API calls."""
    if not capture.has("api"):
        return {}
    calls = capture.columns("api", *SPANS, "global_tid")
    threads, codes = distinct(calls["global_tid"])
    ends = np.cumsum(np.bincount(codes, minlength=len(threads)))[:-1]
    rows = np.split(np.argsort(codes, kind="stable"), ends)
    spans = [(calls["start_ns"][mine], calls["end_ns"][mine]) for mine in rows]
    return {thread: union(*span) for thread, span in zip(threads.tolist(), spans, strict=True)}


def _idle(capture: Capture) -> Covers:
    """Return when no GPU worked for a process, between its first operation and its last one."""
    operations = gpu_operations_of(capture)
    idle = {}
    for process in operations.processes:
        mine = operations.global_pid == process
        busy = union(operations.start_ns[mine], operations.end_ns[mine])
        idle[process] = IntervalSet(busy.end[:-1], busy.start[1:])
    return idle


def _length(covers: Covers) -> int:
    return sum(cover.length for cover in covers.values())


def _inside(parts: Sequence[Covers], wholes: Covers) -> list[int]:
    """Return the time of each part inside the whole of the same owner, in ns."""
    inside = [0] * len(parts)
    for owner, whole in wholes.items():
        mine = [(number, part[owner]) for number, part in enumerate(parts) if owner in part]
        if not mine:
            continue
        # One call for all parts: the whole can have a million intervals.
        taken = whole.within(
            *(np.concatenate(ends) for ends in zip(*(cover for _, cover in mine), strict=True))
        )
        for number, cover in mine:
            inside[number] += int(taken[: len(cover.start)].sum())
            taken = taken[len(cover.start) :]
    return inside
