"""Lanes of the page's timeline.

A GPU has a lane for each stream, with kernels by class and copies by direction. It has another lane for
unified memory. A thread has a lane for its CUDA API calls and one for each nesting level of its NVTX ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.api_call_kinds import CLASSES, call_classes
from nsyswrap.analysis.arrays.groups import distinct, group_keys, order_by_code
from nsyswrap.analysis.arrays.intervals import Cover, intersection, union
from nsyswrap.analysis.gpu_operations import (
    GRAPH,
    GRAPH_NAME,
    KERNEL,
    KINDS,
    MEMCPY,
    MEMSET,
    clipped,
    gpu_operations_of,
)
from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.names import MEMSET_NAME, copy_name, most_frequent, name_codes
from nsyswrap.analysis.nvtx_ranges import ALL, nested_ranges, range_labels
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.global_ids import process_ids, thread_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.window import Intervals

    Coded = tuple[NDArray[Any], Sequence[Any]]  # a code per operation, and the value of each code
    Spans = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # thread, start, end


KERNELS, COPIES, CALLS, RANGES = ("kernels", "copies", "calls", "ranges")  # families of events

_LAST = np.iinfo(np.int64).max  # stands for the context and stream of migrations, which have none
_ALONE = {MEMSET: ((COPIES, "memset"), MEMSET_NAME), GRAPH: ((KERNELS, "graph"), GRAPH_NAME)}

_MOST_DIRECTIONS = 16  # of copies; nsys has fewer
_LEVELS = 6  # of nested NVTX ranges; deeper ranges have no lane


@dataclass(frozen=True)
class Lane:
    """The events of one lane in order of start; times in ns.

    ``series`` is each event's position in ``kinds``, which are pairs of a family and a kind within it.
    ``name`` is its position in ``names``. ``row`` is the event's position among all API calls, or -1 if it is
    not an API call. ``call`` is the position of the API call that launched the event, or -1.
    ``selected`` are the NVTX ranges that events are clipped to, if there are several. All but the times are
    int32, as a page holds the lanes of all events at once.
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
    selected: Cover | None = None

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.start_ns)

    @property
    def has_calls(self) -> bool:
        """True if the events are API calls."""
        return bool(len(self)) and bool(self.row[0] >= 0)

    @property
    def present(self) -> list[int]:
        """The positions in ``kinds`` that the events have, ascending."""
        return np.flatnonzero(np.bincount(self.series)).tolist()

    @property
    def busy_ns(self) -> int:
        """The selected time in which at least one event went on, in ns."""
        busy = union(self.start_ns, self.end_ns)
        return busy.length if self.selected is None else intersection(busy, self.selected).length


def _no_calls(count: int) -> NDArray[Any]:
    return np.broadcast_to(np.array(-1, np.int32), (count,))  # takes no memory


def _rows_by_code(codes: NDArray[Any], count: int) -> list[NDArray[Any]]:
    """Return the positions that have each of ``count`` codes, ascending."""
    return np.split(order_by_code(codes, count), np.cumsum(np.bincount(codes, minlength=count))[:-1])


def id_text(number: int) -> str:
    """Return an id as text, or ``?`` if the export lacks it."""
    return "?" if number == MISSING else str(number)


def _name_texts(names: Sequence[str | None]) -> list[str]:
    return ["(no name)" if name is None else name for name in names]


def streams(capture: Capture) -> Iterator[Lane]:
    """Yield a lane for each GPU, process, context and stream."""
    operations = gpu_operations_of(capture)
    if not len(operations):
        return
    series, kinds = _coded(capture, operations, _kinds)
    name, names = _coded(capture, operations, _names)
    context, stream = operations.context_id, operations.stream_id
    if operations.migration.any():
        context, stream = (np.where(operations.migration, _LAST, part) for part in (context, stream))
    codes, keys = group_keys(operations.device_id, operations.global_pid, context, stream)
    several = len(np.unique(keys[2][keys[2] != _LAST])) > 1
    rows = _rows_by_code(codes, len(keys[0]))
    texts = _name_texts(names)
    for mine, device, owner, *place in zip(rows, *(part.tolist() for part in keys), strict=True):
        yield Lane(
            group=f"GPU {id_text(device)} · process {id_text(int(process_ids(np.array(owner))))}",
            title=_title(*place, several=several),
            start_ns=operations.start_ns[mine],
            end_ns=operations.end_ns[mine],
            series=series[mine],
            kinds=kinds,
            name=name[mine],
            names=texts,
            row=_no_calls(len(mine)),
            call=operations.call[mine].astype(np.int32),
            selected=_selected(capture, capture.window.of_process(owner)),
        )


def _selected(capture: Capture, ranges: Intervals) -> Cover | None:
    return Cover(*ranges) if clipped(capture) and capture.window.several else None


def _title(context: int, stream: int, *, several: bool) -> str:
    if stream == _LAST:
        return "unified memory"
    title = f"stream {id_text(stream)}"
    return f"{title} · context {id_text(context)}" if several else title


def _coded(
    capture: Capture, operations: GpuOperations, coded_kind: Callable[[Capture, str, NDArray[Any]], Coded]
) -> Coded:
    """Call ``coded_kind`` for each kind of operation, and join the codes and values."""
    every_value: list[Any] = []
    every_code = np.zeros(len(operations), np.int32)
    for number, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == number)
        if len(mine):
            codes, values = coded_kind(capture, kind, operations.row[mine])
            every_code[mine] = codes + len(every_value)
            every_value += values
    return every_code, every_value


def _kinds(capture: Capture, kind: str, rows: NDArray[Any]) -> Coded:
    """Return the family and kind of operations: kernels by class, copies by direction."""
    if kind in _ALONE:
        return np.zeros(len(rows), np.int64), [_ALONE[kind][0]]
    if kind == KERNEL:
        ids, codes = distinct(capture.whole.columns(kind, "name")["name"][rows])
        classes = [classify(capture.text(i), capture.view.classes) for i in ids.tolist()]
        return codes, [(KERNELS, name) for name in classes]
    codes, directions = most_frequent(*_directions(capture, rows), _MOST_DIRECTIONS, "other copies")
    return codes, [(COPIES, direction) for direction in directions]


def _names(capture: Capture, kind: str, rows: NDArray[Any]) -> Coded:
    """Return the names of operations: kernels as the view names them, others as nsys does."""
    if kind in _ALONE:
        return np.zeros(len(rows), np.int64), [_ALONE[kind][1]]
    if kind == KERNEL:
        codes, names = name_codes(capture.whole, kind)
        return codes[rows], names
    codes, directions = _directions(capture, rows)
    return codes, [copy_name(direction) for direction in directions]


def _directions(capture: Capture, rows: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    labels = capture.labels("copy_kind")
    ids, codes = distinct(capture.whole.columns(MEMCPY, "copy_kind")["copy_kind"][rows])
    return codes, [labels.get(i, f"copy kind {i}") for i in ids.tolist()]


def threads(capture: Capture) -> Iterator[Lane]:
    """Yield the lanes of each thread: its NVTX ranges, then its API calls."""
    lanes: list[tuple[int, Lane]] = []
    lanes += _ranges(capture) if capture.has("nvtx") else ()
    lanes += _calls(capture) if capture.has("api") else ()
    yield from (lane for _, lane in sorted(lanes, key=lambda pair: pair[0]))


def ranges_left_out(capture: Capture) -> int:
    """Return the number of NVTX ranges without a lane: nested too deep, or ended on another thread."""
    if not capture.has("nvtx"):
        return 0
    every = int(np.isin(capture.columns("nvtx", "event_type")["event_type"], ALL).sum())
    return every - sum(len(lane) for _, lane in _ranges(capture))


def _calls(capture: Capture) -> Iterator[tuple[int, Lane]]:
    """Yield a lane for each thread, with its outermost calls and all calls that launched something."""
    fields = capture.columns("api", "start_ns", "end_ns", "global_tid", "row")
    start, end, row = fields["start_ns"], fields["end_ns"], (fields["row"] - 1).astype(np.int32)
    codes, names = name_codes(capture, "api")
    codes, series = codes.astype(np.int32), call_classes(capture).astype(np.int32)
    launching, texts = _launching(capture), _name_texts(names)
    for thread, every in _by_thread((fields["global_tid"], start, end)):
        mine = every[_outermost(start[every], end[every]) | launching[row[every]]]
        lane = Lane(
            group=_thread(capture, thread),
            title="CUDA API",
            start_ns=start[mine],
            end_ns=end[mine],
            series=series[mine],
            kinds=[(CALLS, kind) for kind in CLASSES],
            name=codes[mine],
            names=texts,
            row=row[mine],
            call=_no_calls(len(mine)),
            selected=_selected(capture, capture.window.of_thread(thread)),
        )
        yield thread, lane


def _launching(capture: Capture) -> NDArray[Any]:
    """Return a mask over all API calls that is True if a call launched a selected operation."""
    marks = np.zeros(capture.whole.count("api"), dtype=bool)
    calls = gpu_operations_of(capture).call
    marks[calls[calls >= 0]] = True
    return marks


def _ranges(capture: Capture) -> Iterator[tuple[int, Lane]]:
    """Yield a lane for each nesting level of each thread's ranges. Outermost ranges are at level 0."""
    ranges = nested_ranges(capture)
    known = np.flatnonzero(ranges.spans.end != MISSING)
    if not len(known):
        return
    thread, start, end = (part[known] for part in ranges.spans)
    name, names = range_labels(capture.whole, ranges.row[known] - 1)
    name, texts = name.astype(np.int32), _name_texts(names)
    for owner, every in _by_thread((thread, start, end)):
        level = _depth(start[every], end[every])
        for depth in range(min(int(level.max()) + 1, _LEVELS)):
            mine = every[level == depth]
            lane = Lane(
                group=_thread(capture, owner),
                title=f"NVTX level {depth + 1}" if depth else "NVTX",
                start_ns=start[mine],
                end_ns=end[mine],
                series=np.zeros(len(mine), np.int32),
                kinds=[(RANGES, "range")],
                name=name[mine],
                names=texts,
                row=_no_calls(len(mine)),
                call=_no_calls(len(mine)),
                selected=_selected(capture, capture.window.of_thread(owner)),
            )
            yield owner, lane


def _by_thread(spans: Spans) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield each thread and the positions of its spans by start. Of equal starts the longest is first."""
    owner, start, end = spans
    known, number = distinct(owner)
    for thread, rows in zip(known.tolist(), _rows_by_code(number, len(known)), strict=True):
        starts = start[rows]
        in_order = (starts[1:] > starts[:-1]).all()  # as nsys writes calls, mostly
        yield thread, rows if in_order else rows[np.lexsort((-end[rows], starts))]


def _until(start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    until: NDArray[Any] = np.maximum(end, start + 1)  # an empty span is still open at its start
    return until


def _outermost(start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Mark the spans of depth 0; see ``_depth``."""
    outermost = np.ones(len(start), dtype=bool)
    outermost[1:] = np.maximum.accumulate(_until(start, end))[:-1] <= start[1:]
    return outermost


def _depth(start: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    """Return for each span the number of spans that are open when it starts.

    Spans are sorted by start. Of equal starts the longest is first.
    """
    ends = np.sort(_until(start, end))
    depth: NDArray[Any] = np.arange(len(start)) - np.searchsorted(ends, start, "right")
    return depth


def _thread(capture: Capture, thread: int) -> str:
    name = capture.threads.get(thread, (None, None))[1]
    number, owner = (int(ids(np.array(thread))) for ids in (thread_ids, process_ids))
    numbers = f"thread {id_text(number)} · process {id_text(owner)}"
    return f"{name} · {numbers}" if name else numbers
