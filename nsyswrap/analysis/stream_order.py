"""Find what a GPU operation waited for on the GPU: earlier work of its stream, and events that it awaited.

An operation begins when the operation before it in its stream is done, and each event that the stream awaits
(cudaStreamWaitEvent) between the two. An event is done with the last operation of its stream before it was
recorded, and with what that stream awaited after that operation. A wait for an event that was never recorded
is no wait. Events that were recorded while a graph was captured are not in captures; nsys before 2025.3 and
from 2026.2 on has no numbers that join waits with events: then streams alone order the operations.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending
from nsyswrap.analysis.correlation import equal_pairs
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.names import calls_named
from nsyswrap.base.constants import MISSING
from nsyswrap.base.lazy import regex
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import PROCESS_MASK

Key = tuple[int, int, int, int]  # of a stream: process, device, context, stream


_WAIT = regex(r"cu(da)?StreamWaitEvent")
_STREAM = ("global_pid", "device_id", "context_id", "stream_id")
UNSURE = -2
_MOST_HOPS = 64  # operations between one that waits and what it waits for
_MOST_WAITS = 256  # awaited events that are followed for one operation


class _Waits(NamedTuple):
    """The waits of one stream by time: when it began to wait, for which stream, recorded when."""

    at_ns: list[int]
    stream: list[int]
    recorded_ns: list[int]


class StreamOrder:
    """The operations of each stream in the order of their launches, and the events that it awaited.

    ``knows_waits`` is False if events were awaited that the capture does not name.
    """

    def __init__(self, whole: Capture) -> None:
        """Take the whole capture."""
        operations = gpu_operations_of(whole)
        self.start_ns, self.end_ns, self.stream = operations.start_ns, operations.end_ns, operations.stream
        self._call = operations.call
        self._called_ns = whole.columns("api", "start_ns")["start_ns"] if whole.has("api") else self._call[:0]
        self._rows = operations.by_stream
        self._launched: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}
        keys = zip(*(getattr(operations.streams, field).tolist() for field in _STREAM), strict=True)
        self._waits = _waits(whole, {key: number for number, key in enumerate(keys)})
        self.knows_waits = _knows_waits(whole)

    def launched_ns(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return when the calls that launched operations began; MISSING without a known call."""
        times = np.full(len(rows), MISSING)
        known = self._call[rows] >= 0
        times[known] = self._called_ns[self._call[rows[known]]]
        return times

    def before(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the operation that was launched into the stream of each one before; -1 without one.

        UNSURE where several can be, as nodes of a graph, and where the stream awaited events.
        """
        found = np.full(len(rows), UNSURE)
        streams, launched = self.stream[rows], self.launched_ns(rows)
        for stream in ascending(streams).tolist():
            if stream in self._waits:
                continue
            mine = np.flatnonzero((streams == stream) & (launched != MISSING))
            every, times = self._in_order(stream)
            place = np.searchsorted(times, launched[mine]) - 1
            alone = (place <= 0) | (times[place - 1] < times[place])
            found[mine[alone]] = np.where(place >= 0, every[place], -1)[alone]
        return found

    def waited_for(self, row: int, start_ns: int, end_ns: int) -> int:
        """Return the operation that ran in this time and that another one waited for then; -1 for none.

        Operations that ran between the two are passed: memsets and small copies.
        """
        for _ in range(_MOST_HOPS):
            before = self._predecessors(row)
            last = max(before, key=self.end_ns.__getitem__, default=-1)
            if last < 0 or self.end_ns[last] <= start_ns:
                return -1
            if self.start_ns[last] < end_ns:
                return last
            row = last
        return -1

    def _predecessors(self, row: int) -> list[int]:
        """Return the operations that must be done before this one can begin."""
        if self._call[row] < 0:
            return []
        moments = [(int(self.stream[row]), int(self._called_ns[self._call[row]]))]
        if moments[0][0] not in self._waits:
            last, _ = self._last(*moments[0])
            return [last] if last >= 0 else []
        found: list[int] = []
        seen: set[tuple[int, int]] = set()
        while moments and len(seen) < _MOST_WAITS:
            stream, at_ns = moment = moments.pop()
            if moment in seen:
                continue
            seen.add(moment)
            last, since_ns = self._last(stream, at_ns)
            if last >= 0:
                found.append(last)
            moments += self._awaited(stream, since_ns, at_ns)
        return found

    def _last(self, stream: int, at_ns: int) -> tuple[int, int]:
        """Return the last operation that was launched into a stream before a time, and its launch time.

        Of the nodes of one graph it is the one that ends last. -1 and MISSING: there was none.
        """
        if stream >= len(self._rows):
            return -1, MISSING
        rows, times = self._in_order(stream)
        place = int(times.searchsorted(at_ns)) - 1
        if place < 0:
            return -1, MISSING
        time = int(times[place])
        rows = rows[int(times.searchsorted(time)) : place + 1]
        return int(rows[0] if len(rows) == 1 else rows[self.end_ns[rows].argmax()]), time

    def _in_order(self, stream: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the operations of a stream by launch, equal ones by start, and when they were launched."""
        if stream not in self._launched:
            rows = self._rows[stream]
            call = self._call.take(rows)
            known = call >= 0
            times, rows = self._called_ns.take(call.compress(known)), rows.compress(known)
            if (times[1:] < times[:-1]).any():  # mostly they start as they were launched
                order = np.argsort(times, kind="stable")
                rows, times = rows.take(order), times.take(order)
            self._launched[stream] = rows, times
        return self._launched[stream]

    def forget_streams(self) -> None:
        """Free the order of the streams that were asked for. It is made again if it is needed again."""
        self._launched.clear()

    def _awaited(self, stream: int, since_ns: int, until_ns: int) -> list[tuple[int, int]]:
        """Return whose events a stream began to await in this time: streams, and when these recorded them."""
        waits = self._waits.get(stream)
        if waits is None:
            return []
        first, last = (int(np.searchsorted(waits.at_ns, time)) for time in (since_ns, until_ns))
        return list(zip(waits.stream[first:last], waits.recorded_ns[first:last], strict=True))


@per_capture
def stream_order(whole: Capture) -> StreamOrder:
    """Return the order that streams and events force on the operations of a whole capture."""
    return StreamOrder(whole)


def _knows_waits(whole: Capture) -> bool:
    """Return True if it is known which events streams awaited, or that they awaited none."""
    if not whole.has("api"):
        return False
    if not len(calls_named(whole, _WAIT)):
        return True
    if not (whole.has("synchronization") and whole.has("cuda_event")):
        return False
    return bool((whole.columns("cuda_event", "event_sync_id")["event_sync_id"] > 0).any())


def _waits(whole: Capture, streams: dict[Key, int]) -> dict[int, _Waits]:
    """Return the waits of each stream for events that were recorded. ``streams`` gets those without work."""
    if not all(whole.has(kind) for kind in ("api", "synchronization", "cuda_event")):
        return {}
    waiting = whole.columns("synchronization", *_STREAM, "correlation_id", "event_sync_id")
    events = whole.columns("cuda_event", *_STREAM, "correlation_id", "event_sync_id")
    called = [_called_ns(whole, one, pattern) for one, pattern in ((waiting, _WAIT), (events, None))]
    waits, records = (
        _in_process(one["event_sync_id"], one["global_pid"], (times != MISSING) & (one["event_sync_id"] > 0))
        for one, times in zip((waiting, events), called, strict=True)
    )
    left, right = equal_pairs(waits, records, "waits for CUDA events and their records", whole.source)
    found: dict[int, list[tuple[int, int, int]]] = {}
    for wait, event in zip(left.tolist(), right.tolist(), strict=True):
        waiter, recorder = (
            streams.setdefault(tuple(int(one[field][row]) for field in _STREAM), len(streams))  # type: ignore[arg-type]
            for one, row in ((waiting, wait), (events, event))
        )  # a stream without operations hands waits on
        found.setdefault(waiter, []).append((int(called[0][wait]), recorder, int(called[1][event])))
    return {stream: _Waits(*map(list, zip(*sorted(one), strict=True))) for stream, one in found.items()}


def _called_ns(whole: Capture, rows: dict[str, NDArray[Any]], name: re.Pattern[str] | None) -> NDArray[Any]:
    """Return when the call of each row began, MISSING without a call of this name.

    By the name, as the numbers of the types of synchronization changed between releases of nsys.
    """
    calls = whole.columns("api", "start_ns", "global_tid", "correlation_id")
    mine = np.arange(len(calls["start_ns"])) if name is None else calls_named(whole, name)
    known = np.ones(len(mine), bool), np.ones(len(rows["correlation_id"]), bool)
    caller = _in_process(calls["correlation_id"][mine], calls["global_tid"][mine], known[0])
    pair, call = equal_pairs(
        _in_process(rows["correlation_id"], rows["global_pid"], known[1]), caller, "calls", whole.source
    )
    times = np.full(len(known[1]), MISSING)
    times[pair] = calls["start_ns"][mine[call]]
    return times


def _in_process(number: NDArray[Any], owner: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
    """Return keys that are equal if number and process are; MISSING where not known."""
    known = known & (number != MISSING) & (owner != MISSING) & (number >= 0) & (number < 2**32)
    process = (owner & PROCESS_MASK).astype(np.uint64) >> np.uint64(24)
    key = (process.astype(np.int64) & 0xFFFFFF) << 32 | (number & 0xFFFFFFFF)
    return np.where(known, key, MISSING)
