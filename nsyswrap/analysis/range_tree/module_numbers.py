"""Tell by autograd's numbers in which module a thread has recorded an operation.

`profile --modules` notes the number of the next operation that autograd records: when a module begins, and
before its end. So the numbers between two such moments are of operations in the innermost module then.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.nvtx_ranges import texts_and_domains
from nsyswrap.analysis.range_texts import MODULE, MODULES_DOMAIN, SHAPES_END
from nsyswrap.analysis.range_tree.nested import NestedRanges
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NVTX_MARK

Ints = NDArray[Any]

NEXT = "next"  # the text of the mark before the end of a module
_MARKS = [(text, MODULES_DOMAIN) for text in (NEXT, SHAPES_END)]
OUTSIDE = -2  # an operation in no module
_MARK, _BEGIN, _END = 0, 1, 2


class OperationNumbers(NamedTuple):
    """Numbers of operations: the thread, ns at which it reached the number, the module's range or OUTSIDE."""

    number: Ints
    thread: Ints
    start: Ints
    module: Ints


class _Moments(NamedTuple):
    thread: Ints
    time: Ints
    kind: Ints
    number: Ints
    module: Ints  # the innermost from here on

    def at(self, rows: Ints) -> _Moments:
        return _Moments(*(field[rows] for field in self))


def recorded_numbers(whole: Capture, ranges: NestedRanges, sequence_numbers: Ints) -> OperationNumbers:
    """Return where these numbers were recorded, each once or several times, or not at all."""
    moments = _moments(whole, ranges)
    if not len(moments.time):
        return OperationNumbers(*(np.empty(0, np.int64),) * 4)
    following = np.append(moments.number[1:], 0)
    # The last moment of a thread: if it is in a module, what comes is in it.
    last = np.append((np.diff(moments.thread) != 0) | (np.diff(moments.number) < 0), [True])
    open_end = np.where(moments.module >= 0, np.iinfo(np.int64).max, moments.number)
    following = np.where(last, open_end, following)
    numbers = np.unique(sequence_numbers)
    first, end = np.searchsorted(numbers, moments.number), np.searchsorted(numbers, following)
    times = np.maximum(end - first, 0)
    which = np.repeat(np.arange(len(times)), times)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times)
    found = moments.at(which)
    return OperationNumbers(numbers[first[which] + offset], found.thread, found.time, found.module)


def marks_of_modules(whole: Capture, rows: Ints) -> NDArray[np.bool_]:
    """Return which of these NVTX events are marks of the hook's."""
    codes, named = texts_and_domains(whole, rows)
    ours = np.array([pair in _MARKS for pair in named] or [False])
    return ours[codes] if len(codes) else np.empty(0, bool)


def _moments(whole: Capture, ranges: NestedRanges) -> _Moments:
    """Return the beginnings and ends of modules, and the marks before their ends, by thread and time."""
    modules = np.flatnonzero(ranges.kind == MODULE)
    events = whole.columns("nvtx", "payload", "event_type", "start_ns", "global_tid")
    numbers = events["payload"][ranges.row[modules]]
    modules, numbers = modules[numbers != MISSING], numbers[numbers != MISSING]
    marks = np.flatnonzero((events["event_type"] == NVTX_MARK) & (events["payload"] != MISSING))
    marks = marks[marks_of_modules(whole, marks)]
    thread, start, end = (field[modules] for field in ranges.spans)
    around = _modules_around(ranges)[modules]
    unknown, none = np.full(len(modules), MISSING), np.full(len(marks), OUTSIDE)
    parts = (
        _Moments(
            *(events["global_tid"][marks], events["start_ns"][marks]),
            *(np.full(len(marks), _MARK), events["payload"][marks], none),
        ),
        _Moments(thread, start, np.full(len(modules), _BEGIN), numbers, modules),
        _Moments(thread, end, np.full(len(modules), _END), unknown, around),
    )
    moments = _Moments(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))
    return _filled(moments.at(np.lexsort((moments.kind, moments.time, moments.thread))))


def _filled(moments: _Moments) -> _Moments:
    """Return the moments with what is unknown as it was before: numbers of ends, modules of marks."""
    every = np.arange(len(moments.time))
    first = np.append([True], np.diff(moments.thread) != 0)[: len(every)]
    number, module = (
        values[np.maximum.accumulate(np.where(known | first, every, 0))]
        for values, known in ((moments.number, moments.kind != _END), (moments.module, moments.kind != _MARK))
    )
    return moments._replace(number=number, module=module)


def _modules_around(ranges: NestedRanges) -> Ints:
    """Return the innermost module around each range; OUTSIDE without one."""
    is_module = ranges.kind == MODULE
    around = np.full(len(ranges), OUTSIDE)
    for rows in ranges.levels():
        above = ranges.parent[rows]
        inside = rows[above >= 0]
        above = above[above >= 0]
        around[inside] = np.where(is_module[above], above, around[above])
    return around
