"""The lanes of the page's timeline: events that share a line.

A device has a lane per stream, with kernels by class and copies by direction, and one for unified memory. A
thread has a lane for its CUDA calls and one for each nesting level of its NVTX ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.api_call_kinds import CLASSES, call_classes
from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.analysis.gpu_operations import COPY, GRAPH, GRAPH_NAME, KERNEL, KINDS, SET, gpu_operations_of
from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.names import MEMSET, copy_name, name_codes
from nsyswrap.analysis.nvtx_ranges import ALL, nested_ranges, range_labels
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.global_ids import process_ids, thread_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture

    Coded = tuple[NDArray[Any], Sequence[Any]]  # a number per operation, and what the numbers stand for
    Spans = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # thread, start, end


KERNELS, COPIES, CALLS, RANGES = ("kernels", "copies", "calls", "ranges")  # families of events

_LAST = np.iinfo(np.int64).max  # in place of context and stream: migrations are in none, and come last
_ALONE = {SET: ((COPIES, "memset"), MEMSET), GRAPH: ((KERNELS, "graph"), GRAPH_NAME)}

_LEVELS = 6  # of NVTX ranges in each other


@dataclass(frozen=True)
class Lane:
    """Events in order of start; times in ns.

    ``series`` numbers ``kinds``, pairs of a family and what its events are within it; ``name`` numbers
    ``names``. ``row`` is an event's number among all API calls, -1 where it is none; ``call`` is that of the
    call which launched it, -1 where none did.
    """

    group: str
    title: str
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    series: NDArray[Any]
    kinds: Sequence[tuple[str, str]]
    name: NDArray[Any]
    names: Sequence[str]
    row: NDArray[Any]
    call: NDArray[Any]

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.start_ns)


def nothing(count: int) -> NDArray[Any]:
    """Return so many -1: no call."""
    return np.full(count, -1)


def split(order: NDArray[Any], codes: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the rows of each code, as they stand in ``order``, which is by code."""
    return np.split(order, np.cumsum(np.bincount(codes))[:-1])


def said(number: int) -> str:
    """Write an id, which an export may lack."""
    return "?" if number == MISSING else str(number)


def texts(names: Sequence[str | None]) -> list[str]:
    """Return names, those of whom the export has none too."""
    return ["(no name)" if name is None else name for name in names]


def streams(capture: Capture) -> Iterator[Lane]:
    """Yield the lanes of all devices and processes, by stream."""
    operations = gpu_operations_of(capture)
    if not len(operations):
        return
    series, kinds = _coded(capture, operations, _kinds)
    name, names = _coded(capture, operations, _names)
    context, stream = (
        np.where(operations.migration, _LAST, part) for part in (operations.context_id, operations.stream_id)
    )
    codes, keys = group_keys(operations.device_id, operations.global_pid, context, stream)
    several = len(np.unique(context[context != _LAST])) > 1
    rows = split(np.argsort(codes, kind="stable"), codes)
    for mine, device, owner, *place in zip(rows, *(part.tolist() for part in keys), strict=True):
        yield Lane(
            group=f"GPU {said(device)} · process {said(int(process_ids(np.array(owner))))}",
            title=_title(*place, several=several),
            start_ns=operations.start_ns[mine],
            end_ns=operations.end_ns[mine],
            series=series[mine],
            kinds=kinds,
            name=name[mine],
            names=texts(names),
            row=nothing(len(mine)),
            call=operations.call[mine],
        )


def _title(context: int, stream: int, *, several: bool) -> str:
    if stream == _LAST:
        return "unified memory"
    return f"stream {said(stream)} · context {said(context)}" if several else f"stream {said(stream)}"


def _coded(capture: Capture, operations: GpuOperations, of_kind: Any) -> Coded:  # noqa: ANN401 - one of the two below
    """Put what is told of each kind of operation together."""
    every: list[Any] = []
    numbers = np.zeros(len(operations), np.int64)
    for number, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == number)
        if len(mine):
            codes, found = of_kind(capture, kind, operations.row[mine])
            numbers[mine] = codes + len(every)
            every += found
    return numbers, every


def _kinds(capture: Capture, kind: str, rows: NDArray[Any]) -> Coded:
    """Return the family of operations, and what they are in it."""
    if kind in _ALONE:
        return np.zeros(len(rows), np.int64), [_ALONE[kind][0]]
    if kind == KERNEL:
        ids, codes = distinct(capture.whole.columns(kind, "name")["name"][rows])
        classes = [classify(capture.text(i), capture.view.classes) for i in ids.tolist()]
        return codes, [(KERNELS, name) for name in classes]
    codes, directions = _directions(capture, rows)
    return codes, [(COPIES, direction) for direction in directions]


def _names(capture: Capture, kind: str, rows: NDArray[Any]) -> Coded:
    """Return what operations are called: kernels as the view calls them, the rest as nsys does."""
    if kind in _ALONE:
        return np.zeros(len(rows), np.int64), [_ALONE[kind][1]]
    if kind == KERNEL:
        codes, names = name_codes(capture.whole, kind)
        return codes[rows], names
    codes, directions = _directions(capture, rows)
    return codes, [copy_name(direction) for direction in directions]


def _directions(capture: Capture, rows: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    labels = capture.labels("copy_kind")
    ids, codes = distinct(capture.whole.columns(COPY, "copy_kind")["copy_kind"][rows])
    return codes, [labels.get(i, f"kind {i}") for i in ids.tolist()]


def threads(capture: Capture) -> Iterator[Lane]:
    """Yield the lanes of each thread: ranges, then calls."""
    found: list[tuple[int, Lane]] = []
    found += _ranges(capture) if capture.has("nvtx") else ()
    found += _calls(capture) if capture.has("api") else ()
    yield from (lane for _, lane in sorted(found, key=lambda pair: pair[0]))


def ranges_left_out(capture: Capture) -> int:
    """Return how many NVTX ranges are in no lane: too deep, or ended on another thread than they began on."""
    if not capture.has("nvtx"):
        return 0
    every = int(np.isin(capture.columns("nvtx", "event_type")["event_type"], ALL).sum())
    return every - sum(len(lane) for _, lane in _ranges(capture))


def _calls(capture: Capture) -> Iterator[tuple[int, Lane]]:
    """Yield the outermost calls of each thread, and all that launched something."""
    fields = capture.columns("api", "start_ns", "end_ns", "global_tid", "row")
    start, end, row = fields["start_ns"], fields["end_ns"], fields["row"] - 1
    codes, names = name_codes(capture, "api")
    series, launching = call_classes(capture), _launching(capture)
    for thread, every in _by_thread((fields["global_tid"], start, end)):
        mine = every[(_depth(start[every], end[every]) == 0) | launching[row[every]]]
        lane = Lane(
            group=_thread(capture, thread),
            title="CUDA API",
            start_ns=start[mine],
            end_ns=end[mine],
            series=series[mine],
            kinds=[(CALLS, kind) for kind in CLASSES],
            name=codes[mine],
            names=texts(names),
            row=row[mine],
            call=nothing(len(mine)),
        )
        yield thread, lane


def _launching(capture: Capture) -> NDArray[Any]:
    """Mark, of all API calls, those that launched what is selected."""
    marks = np.zeros(capture.whole.count("api"), dtype=bool)
    calls = gpu_operations_of(capture).call
    marks[calls[calls >= 0]] = True
    return marks


def _ranges(capture: Capture) -> Iterator[tuple[int, Lane]]:
    """Yield a lane for each level of each thread's ranges; those in no other are at level 0."""
    ranges = nested_ranges(capture)
    known = np.flatnonzero(ranges.spans.end != MISSING)
    if not len(known):
        return
    thread, start, end = (part[known] for part in ranges.spans)
    name, names = range_labels(capture.whole, ranges.row[known] - 1)
    for owner, every in _by_thread((thread, start, end)):
        level = _depth(start[every], end[every])
        for depth in range(min(int(level.max()) + 1, _LEVELS)):
            mine = every[level == depth]
            lane = Lane(
                group=_thread(capture, owner),
                title=f"NVTX {depth}" if depth else "NVTX",
                start_ns=start[mine],
                end_ns=end[mine],
                series=np.zeros(len(mine), np.int64),
                kinds=[(RANGES, "range")],
                name=name[mine],
                names=texts(names),
                row=nothing(len(mine)),
                call=nothing(len(mine)),
            )
            yield owner, lane


def _by_thread(spans: Spans) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the rows of each thread by start, of equal ones the longest first."""
    owner, start, end = spans
    known, number = distinct(owner)
    yield from zip(known.tolist(), split(np.lexsort((-end, start, number)), number), strict=True)


def _depth(start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return in how many others each span begins; they come by start, of equal ones the longest first."""
    ends = np.sort(np.maximum(end, start + 1))  # one that takes no time has not ended when it begins
    depth: NDArray[Any] = np.arange(len(start)) - np.searchsorted(ends, start, "right")
    return depth


def _thread(capture: Capture, thread: int) -> str:
    name = capture.threads.get(thread, (None, None))[1]
    number, owner = (int(ids(np.array(thread))) for ids in (thread_ids, process_ids))
    numbers = f"thread {said(number)} · process {said(owner)}"
    return f"{name} · {numbers}" if name else numbers
