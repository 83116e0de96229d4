"""What a program itself said of its ranges: the NVTX marks that nsyswrap.measure leaves."""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.nvtx_ranges import own_texts
from nsyswrap.base.marks import MEASURE_MARK
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import PROCESS_MASK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.arrays.spans import Spans
    from nsyswrap.capture.capture import Capture

    Key = tuple[int, str]

_MARK_EVENT = 34  # NVTX_EVENTS.eventType of a mark


class Said(NamedTuple):
    """One mark: when and on which thread it was left, and the times it tells, in ns."""

    time: int
    thread: int
    name: str
    host_ns: int
    cuda_ns: int | None


def reported(whole: Capture, rows: NDArray[Any], ranges: Spans) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return host time and CUDA event time of each range in ns; MISSING where no mark tells them.

    ``rows`` are the positions of the closed ranges among the capture's NVTX events, ``ranges`` their spans.
    """
    host, cuda = np.full(len(rows), MISSING), np.full(len(rows), MISSING)
    marks = said(whole)
    if marks:
        names = _names(whole, rows, {mark.name for mark in marks})
        ended = _Ended(ranges, names)
        for mark in marks:
            ended.until(mark.time)
            i = ended.of(mark)
            if i is not None:
                host[i], cuda[i] = mark.host_ns, MISSING if mark.cuda_ns is None else mark.cuda_ns
    return host, cuda


def said(whole: Capture) -> list[Said]:
    """Return the marks in order of time; those that hold something else are left out."""
    events = whole.columns("nvtx", "event_type", "start_ns", "global_tid")
    rows = np.flatnonzero(events["event_type"] == _MARK_EVENT)
    rows = rows[np.argsort(events["start_ns"][rows], kind="stable")]
    codes, texts = own_texts(whole, rows)
    told = [_told(text) for text in texts]
    times, threads = (events[field][rows].tolist() for field in ("start_ns", "global_tid"))
    return [
        Said(time, thread, *found)
        for time, thread, code in zip(times, threads, codes.tolist(), strict=True)
        if (found := told[code])
    ]


def _told(text: str | None) -> tuple[str, int, int | None] | None:
    if not text or not text.startswith(MEASURE_MARK):
        return None
    try:
        found = json.loads(text.removeprefix(MEASURE_MARK))
        cuda_ns = found.get("cuda_ns")
        return str(found["name"]), int(found["host_ns"]), None if cuda_ns is None else int(cuda_ns)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _names(whole: Capture, rows: NDArray[Any], wanted: set[str]) -> dict[int, str]:
    """Return the names of the ranges that have one of the wanted."""
    codes, texts = own_texts(whole, rows)
    known = {code: text for code, text in enumerate(texts) if text in wanted and text is not None}
    return {i: known[code] for i, code in enumerate(codes.tolist()) if code in known}


class _Ended:
    """The ranges that have ended by some moment and that no mark has told of.

    A mark follows its range at once, on the same thread, unless it waits for CUDA events to be read. Such a
    late one belongs to the range of its name, in its process, whose length is nearest to what it says.
    """

    def __init__(self, ranges: Spans, names: dict[int, str]) -> None:
        self._names = names
        self._thread, self._end = ranges.thread.tolist(), ranges.end.tolist()
        self._length = (ranges.end - ranges.start).tolist()
        self._coming = sorted(names, key=lambda i: -self._end[i])
        self._latest: dict[Key, int] = {}
        self._silent: dict[Key, list[tuple[int, int]]] = {}  # lengths and numbers, in order

    def until(self, time: int) -> None:
        """Let time pass."""
        while self._coming and self._end[self._coming[-1]] <= time:
            i = self._coming.pop()
            self._latest[self._thread[i], self._names[i]] = i
            insort(self._silent.setdefault(self._key(i), []), (self._length[i], i))

    def of(self, mark: Said) -> int | None:
        """Return the number of the range that a mark tells of; each is returned once."""
        if mark.cuda_ns is None:
            i = self._latest.pop((mark.thread, mark.name), None)
        else:
            i = self._nearest(self._silent.get((mark.thread & PROCESS_MASK, mark.name), []), mark.host_ns)
        silent = self._silent[self._key(i)] if i is not None else []
        at = bisect_left(silent, (self._length[i], i)) if i is not None else 0
        if i is None or silent[at : at + 1] != [(self._length[i], i)]:
            return None
        del silent[at]
        return i

    def _key(self, i: int) -> Key:
        return self._thread[i] & PROCESS_MASK, self._names[i]

    def _nearest(self, silent: list[tuple[int, int]], length: int) -> int | None:
        at = bisect_left(silent, (length, -1))
        near = silent[max(at - 1, 0) : at + 1]
        return min(near, key=lambda found: abs(found[0] - length))[1] if near else None
