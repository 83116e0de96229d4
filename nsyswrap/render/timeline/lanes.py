"""Put the events of a capture into lanes, in display order: GPUs first, then host threads.

A GPU has a lane for each stream, with kernels by class and copies by direction, and one for unified memory. A
thread has a lane for each nesting level of its NVTX ranges, one for its CUDA API calls, and one for each
other kind of call that was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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
from nsyswrap.capture.global_ids import machine_ids
from nsyswrap.render.timeline.owners import (
    IN_STREAM,
    MIGRATION,
    Stream,
    gpu_name,
    stream_names,
    sublane_suffix,
    thread_names,
)
from nsyswrap.render.timeline.packing import few_disjoint, levels, outermost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.window import Intervals

    Coded = tuple[NDArray[Any], Sequence[Any]]  # a code per operation, and the value of each code
    Spans = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # thread, start, end


# Families of events. A lane of a GPU has kernels and copies, another one has events of its own family.
KERNELS, COPIES, CALLS, RANGES, OTHERS = ("kernels", "copies", "calls", "ranges", "other calls")

_ALONE = {MEMSET: ((COPIES, "memset"), MEMSET_NAME), GRAPH: ((KERNELS, "graph"), GRAPH_NAME)}
# Calls besides those of CUDA: kind of event and title of the lane.
_OTHER_CALLS = {
    "mpi_collective": "MPI collectives",
    "mpi_p2p": "MPI sends and receives",
    "mpi_start_wait": "MPI starts and waits",
    "mpi_other": "other MPI calls",
    "openmp": "OpenMP",
    "openacc": "OpenACC",
    "osrt": "OS calls",
    "overhead": "profiler overhead",
    "cuda_overhead": "overhead in CUDA",
}
_OVERHEAD = ("overhead", "cuda_overhead")  # without a lane on threads that do nothing else: those of nsys

_MOST_DIRECTIONS = 16  # of copies; nsys has fewer
_LEVELS = 12  # of nested NVTX ranges; deeper ranges have no lane


@dataclass(frozen=True)
class Lane:
    """The events of one lane in order of start; times in ns.

    ``family`` is KERNELS for a lane of a GPU, else that of its events. ``owner`` is the global thread id, or
    the global process id of a stream. ``series`` is each event's position in ``kinds``, which are pairs of a
    family and a kind within it. ``name`` is its position in ``names``. ``row`` is its position among all
    GPU operations, API calls or, for ranges, NVTX events; -1 in other lanes. ``call`` is the position of the
    API call that launched the event, or -1. ``selected`` are the NVTX ranges that events are clipped to, if
    there are several. All but the times are int32, as a page holds the lanes of all events at once.
    """

    family: str
    owner: int
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
    level: int = 0

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.start_ns)

    @cached_property
    def present(self) -> list[int]:
        """The positions in ``kinds`` that the events have, ascending."""
        return np.flatnonzero(np.bincount(self.series)).tolist()

    @property
    def busy_ns(self) -> int:
        """The selected time in which at least one event went on, in ns."""
        busy = union(self.start_ns, self.end_ns)
        return busy.length if self.selected is None else intersection(busy, self.selected).length


def _none(count: int) -> NDArray[Any]:
    return np.broadcast_to(np.array(-1, np.int32), (count,))  # takes no memory


def _rows_by_code(codes: NDArray[Any], count: int) -> list[NDArray[Any]]:
    """Return the positions that have each of ``count`` codes, ascending."""
    return np.split(order_by_code(codes, count), np.cumsum(np.bincount(codes, minlength=count))[:-1])


def _name_texts(names: Sequence[str | None]) -> list[str]:
    return ["(no name)" if name is None else name for name in names]


def streams(capture: Capture) -> Iterator[Lane]:
    """Yield the lanes of each stream; operations that overlap are in lanes below one another."""
    operations = gpu_operations_of(capture)
    if not len(operations):
        return
    series, kinds = _coded(capture, operations, _kinds)
    name, names = _coded(capture, operations, _names)
    stream, every = _streams(operations)
    texts = _name_texts(names)
    for mine, place, title in zip(_rows_by_code(stream, len(every)), every, stream_names(every), strict=True):
        start, end = operations.start_ns[mine], operations.end_ns[mine]
        beside = few_disjoint(start, end)
        for sublane in range(int(beside.max()) + 1):
            part = np.flatnonzero(beside == sublane) if beside.any() else slice(None)
            yield Lane(
                family=KERNELS,
                owner=place.global_pid,
                group=gpu_name(capture, place.device),
                title=title + sublane_suffix(sublane),
                start_ns=start[part],
                end_ns=end[part],
                series=series[mine[part]],
                kinds=kinds,
                name=name[mine[part]],
                names=texts,
                row=mine[part].astype(np.int32),
                call=operations.call[mine[part]].astype(np.int32),
                selected=_selected(capture, capture.window.of_process(place.global_pid)),
                level=sublane,
            )


def _streams(operations: GpuOperations) -> tuple[NDArray[Any], list[Stream]]:
    """Return the number of each operation's stream, and the streams. Migrations have neither."""
    pid, migration = operations.global_pid, operations.migration
    codes, keys = group_keys(
        np.where(pid == MISSING, 0, machine_ids(pid)),
        operations.device_id,
        np.where(migration, MIGRATION, IN_STREAM),
        pid,
        np.where(migration, MISSING, operations.context_id),
        np.where(migration, MISSING, operations.stream_id),
    )
    return codes, [Stream(*key) for key in zip(*(key.tolist() for key in keys), strict=True)]


def _selected(capture: Capture, ranges: Intervals) -> Cover | None:
    return Cover(*ranges) if clipped(capture) and capture.window.several else None


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
        known = sorted(set(classes))
        numbers = np.array([known.index(name) for name in classes], np.int64)
        return numbers[codes], [(KERNELS, name) for name in known]
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
    """Yield the lanes of each thread: its NVTX ranges, its API calls, and other calls."""
    names = _thread_names(capture)
    lanes = [*_ranges(capture, names)] if capture.has("nvtx") else []
    lanes += _calls(capture, names) if capture.has("api") else ()
    for kind in _OTHER_CALLS:
        if capture.has(kind):
            owners = {lane.owner for lane in lanes}
            found = _other_calls(capture, kind, names)
            lanes += (lane for lane in found if kind not in _OVERHEAD or lane.owner in owners)
    yield from sorted(lanes, key=lambda lane: lane.owner)


def _thread_names(capture: Capture) -> dict[int, str]:
    """Return the names of all threads that have a lane."""
    kinds = [kind for kind in ("nvtx", "api", *_OTHER_CALLS) if capture.has(kind)]
    found = [distinct(capture.columns(kind, "global_tid")["global_tid"])[0] for kind in kinds]
    return thread_names(capture, np.unique(np.concatenate(found)).tolist()) if found else {}


def ranges_left_out(capture: Capture) -> int:
    """Return the number of NVTX ranges without a lane: nested too deep, or ended on another thread."""
    if not capture.has("nvtx"):
        return 0
    every = int(np.isin(capture.columns("nvtx", "event_type")["event_type"], ALL).sum())
    return every - sum(len(lane) for lane in _ranges(capture, _thread_names(capture)))


def _calls(capture: Capture, owners: dict[int, str]) -> Iterator[Lane]:
    """Yield a lane for each thread, with its outermost calls and all calls that launched something."""
    fields = capture.columns("api", "start_ns", "end_ns", "global_tid", "row")
    start, end, row = fields["start_ns"], fields["end_ns"], (fields["row"] - 1).astype(np.int32)
    codes, names = name_codes(capture, "api")
    codes, series = codes.astype(np.int32), call_classes(capture).astype(np.int32)
    launching, texts = _launching(capture), _name_texts(names)
    for thread, every in _by_thread((fields["global_tid"], start, end)):
        mine = every[outermost(start[every], end[every]) | launching[row[every]]]
        yield Lane(
            family=CALLS,
            owner=thread,
            group=owners[thread],
            title="CUDA API",
            start_ns=start[mine],
            end_ns=end[mine],
            series=series[mine],
            kinds=[(CALLS, kind) for kind in CLASSES],
            name=codes[mine],
            names=texts,
            row=row[mine],
            call=_none(len(mine)),
            selected=_selected(capture, capture.window.of_thread(thread)),
        )


def _other_calls(capture: Capture, kind: str, owners: dict[int, str]) -> Iterator[Lane]:
    """Yield a lane for each thread, with its outermost calls of one kind."""
    fields = capture.columns(kind, "start_ns", "end_ns", "global_tid")
    timed = np.flatnonzero((fields["end_ns"] != MISSING) & (fields["end_ns"] >= fields["start_ns"]))
    start, end, threads_of = (values[timed] for values in fields.values())
    codes, names = name_codes(capture, kind)
    codes = codes[timed].astype(np.int32)
    for thread, every in _by_thread((threads_of, start, end)):
        mine = every[outermost(start[every], end[every])]
        yield Lane(
            family=OTHERS,
            owner=thread,
            group=owners[thread],
            title=_OTHER_CALLS[kind],
            start_ns=start[mine],
            end_ns=end[mine],
            series=np.zeros(len(mine), np.int32),
            kinds=[(OTHERS, _OTHER_CALLS[kind])],
            name=codes[mine],
            names=_name_texts(names),
            row=_none(len(mine)),
            call=_none(len(mine)),
            selected=_selected(capture, capture.window.of_thread(thread)),
        )


def _launching(capture: Capture) -> NDArray[Any]:
    """Return a mask over all API calls that is True if a call launched a selected operation."""
    marks = np.zeros(capture.whole.count("api"), dtype=bool)
    calls = gpu_operations_of(capture).call
    marks[calls[calls >= 0]] = True
    return marks


def _ranges(capture: Capture, owners: dict[int, str]) -> Iterator[Lane]:
    """Yield a lane for each nesting level of each thread's ranges. Outermost ranges are at level 0."""
    ranges = nested_ranges(capture)
    known = np.flatnonzero(ranges.spans.end != MISSING)
    if not len(known):
        return
    thread, start, end = (part[known] for part in ranges.spans)
    row = (ranges.row[known] - 1).astype(np.int32)
    name, names = range_labels(capture.whole, row)
    name, texts = name.astype(np.int32), _name_texts(names)
    for owner, every in _by_thread((thread, start, end)):
        level = levels(start[every], end[every])
        for depth in range(min(int(level.max()) + 1, _LEVELS)):
            mine = every[level == depth]
            yield Lane(
                family=RANGES,
                owner=owner,
                group=owners[owner],
                title=f"NVTX level {depth + 1}" if depth else "NVTX",
                start_ns=start[mine],
                end_ns=end[mine],
                series=np.zeros(len(mine), np.int32),
                kinds=[(RANGES, "range")],
                name=name[mine],
                names=texts,
                row=row[mine],
                call=_none(len(mine)),
                selected=_selected(capture, capture.window.of_thread(owner)),
                level=depth,
            )


def _by_thread(spans: Spans) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield each thread and the positions of its spans by start. Of equal starts the longest is first."""
    owner, start, end = spans
    known, number = distinct(owner)
    for thread, rows in zip(known.tolist(), _rows_by_code(number, len(known)), strict=True):
        starts = start[rows]
        in_order = (starts[1:] > starts[:-1]).all()  # as nsys writes calls, mostly
        yield thread, rows if in_order else rows[np.lexsort((-end[rows], starts))]
