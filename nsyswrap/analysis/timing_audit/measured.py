"""Read the times that a program measured itself: the NVTX marks that nsyswrap.measure leaves."""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.spans import Spans
from nsyswrap.analysis.nvtx_ranges import own_texts
from nsyswrap.base.constants import MEASURE_MARK, MISSING
from nsyswrap.base.files import parsed
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import PROCESS_MASK

Key = tuple[int, str]  # global process id and name of a range


_MARK_EVENT = 34  # NVTX_EVENTS.eventType of a mark


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
