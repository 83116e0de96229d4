"""Put kernels, copies, memsets and whole-graph executions into one table, with their launch calls.

``_all_operations`` makes the table of the whole capture once. A view has rows of it (``ColumnSet.of``); where
a window cuts operations it replaces their times and sorts them again. So an operation has three numbers:

- ``row``: its position among the events of its kind, as in ``capture.columns``
- its position in the table of the whole capture: ``positions_of``, ``places_of``, ``Gaps.before``
- its position in the table of a view: ``rows_of``, ``by_device``, and marks such as ``computes``

The order is by start, kind and row. Process, device, context and stream of an operation are one number in
``streams``, those of the whole capture also in a view. ``call`` is a position among all calls, too.
``pieces_of`` is another table: it can have an operation in several rows, one for each selected NVTX range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import ColumnSet, TextColumn
from nsyswrap.analysis.arrays.groups import ascending, group_keys, order_by_code
from nsyswrap.analysis.correlation import call_table, launch_pairs_of, process_notes
from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.names import MEMSET_NAME, copy_name, kernel_classes, look_up
from nsyswrap.analysis.packed import packed_names
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import LEAST, MOST, IntervalSet, union
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import PROCESS_MASK, SPANS, UNIFIED_MEMORY_KINDS
from nsyswrap.capture.selection import process_ids, select
from nsyswrap.capture.stream import looked_up, one_of

KINDS = KERNEL, MEMCPY, MEMSET, GRAPH = ("kernel", "memcpy", "memset", "graph")
GRAPH_NAME = "[CUDA graph]"
_KIND_SHIFT = 48  # above the number of any row
_FIELDS = ("start_ns", "end_ns", "global_pid", "device_id", "context_id", "stream_id")
MOST_DEVICES, MOST_PROCESSES = 1_024, 256  # far more than one machine has
# The fields that the table is computed from, by kind of event.
READS = {
    **dict.fromkeys(KINDS, (*_FIELDS, "correlation_id")),
    MEMCPY: (*_FIELDS, "correlation_id", "copy_kind"),
    "api": ("global_tid", "correlation_id"),
}


def check_number(number: int, most: int, noun: str, hint: str) -> None:
    """Raise NotInCapture if the work on each one, which reads all events, would take minutes."""
    if number > most:
        raise NotInCapture(f"{number:,} {noun}: at most {most:,} are judged; {hint}")


class Streams(NamedTuple):
    """The distinct streams, in ascending order; ids are MISSING where they were not recorded."""

    global_pid: NDArray[Any]
    device_id: NDArray[Any]
    context_id: NDArray[Any]
    stream_id: NDArray[Any]


@dataclass(frozen=True, eq=False)
class GpuOperations(ColumnSet):
    """One entry per operation by start, equal starts in the order of KINDS; times in ns.

    ``kind`` is the number in KINDS, ``row`` the position among the events of that kind in the whole capture.
    ``stream`` is the number in ``streams``, those of the whole capture.
    ``call`` is the position of the outermost launch call among the whole capture's API calls, -1 without one.
    ``migration`` marks the migrations of unified memory, which have no launch call.
    """

    kind: NDArray[Any]
    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    stream: NDArray[Any]
    call: NDArray[Any]
    migration: NDArray[Any]
    streams: Streams

    @property
    def global_pid(self) -> NDArray[Any]:
        """The global process id of each operation."""
        return self._of_stream(self.streams.global_pid)

    @property
    def device_id(self) -> NDArray[Any]:
        """The device of each operation, as its process numbers them."""
        return self._of_stream(self.streams.device_id)

    @property
    def context_id(self) -> NDArray[Any]:
        """The context of each operation."""
        return self._of_stream(self.streams.context_id)

    @property
    def stream_id(self) -> NDArray[Any]:
        """The id of the stream of each operation, in its context."""
        return self._of_stream(self.streams.stream_id)

    def _of_stream(self, ids: NDArray[Any]) -> NDArray[Any]:
        return looked_up(ids, self.stream)

    @cached_property
    def rows_of(self) -> Mapping[tuple[int, ...], NDArray[np.int32]]:
        """The positions of the operations of each pair of global process id and device id, ascending."""
        if self.rows is not None and len(self.source.rows_of) == 1 and len(self):
            return {pair: np.arange(len(self), dtype=np.int32) for pair in self.source.rows_of}
        owner, keys = group_keys(self.streams.global_pid, self.streams.device_id)
        pairs = list(zip(*(key.tolist() for key in keys), strict=True))
        codes = looked_up(owner.astype(np.min_scalar_type(len(pairs))), self.stream)
        count = np.bincount(codes, minlength=len(pairs))
        if np.count_nonzero(count) == 1:
            return {pairs[count.argmax()]: np.arange(len(codes), dtype=np.int32)}
        rows = np.split(order_by_code(codes, len(pairs)).astype(np.int32), np.cumsum(count)[:-1])
        return {pair: mine for pair, mine in zip(pairs, rows, strict=False) if len(mine)}

    @cached_property
    def by_stream(self) -> list[NDArray[np.int32]]:
        """The positions of the operations of each of ``streams``, ascending."""
        streams = len(self.streams.stream_id)
        ends = np.cumsum(np.bincount(self.stream, minlength=streams))[:-1]
        return np.split(order_by_code(self.stream, streams).astype(np.int32), ends)

    @cached_property
    def processes(self) -> list[int]:
        """The distinct global process ids, ascending."""
        streams = np.flatnonzero(np.bincount(self.stream))
        return ascending(self.streams.global_pid[streams]).tolist()  # type: ignore[no-any-return]

    @cached_property
    def computes(self) -> NDArray[np.bool_]:
        """Marks of kernels and whole graphs."""
        marks: NDArray[np.bool_] = (self.kind == KINDS.index(KERNEL)) | (self.kind == KINDS.index(GRAPH))
        return marks

    def by_device(self) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Yield each pair of global process id and device id, and the positions of its operations.

        The ids are MISSING if the export lacks them. Raises NotInCapture if there are too many pairs.
        """
        check_number(
            len(self.rows_of),
            MOST_DEVICES,
            "pairs of a process and a GPU",
            "select some with --process or --device",
        )
        for (process, device), rows in self.rows_of.items():
            yield process, device, rows


@per_capture
def owners_of_gpus(whole: Capture) -> Mapping[tuple[int, int], tuple[tuple[int, int], ...]]:
    """Return the pairs of global process id and device id that are the GPU of each such pair.

    A process numbers the GPUs that it sees. Where an export does not tell which these are, equal numbers are
    one GPU if the machine has only one.
    """
    pairs = [(process, device) for process, device, _ in gpu_operations_of(whole).by_device()]
    pids = process_ids(np.array([process for process, _ in pairs], np.int64)).tolist()
    one = not whole.has("gpu") or whole.count("gpu") == 1
    owners: dict[object, list[tuple[int, int]]] = {}
    for pid, pair in zip(pids, pairs, strict=True):
        owners.setdefault(whole.gpu_uuids.get((pid, pair[1]), pair[1] if one else pair), []).append(pair)
    return {pair: tuple(sharing) for sharing in owners.values() for pair in sharing}


_NOTHING = np.empty(0, np.int64)
_NO_OPERATIONS = GpuOperations(*(_NOTHING,) * 6, np.empty(0, bool), Streams(*(_NOTHING,) * 4))


@per_capture
def gpu_operations_of(capture: Capture) -> GpuOperations:
    """Return the selected GPU operations; empty if there are none."""
    every, _ = _all_operations(capture.whole)
    if not capture.view.selection.narrows:
        return every
    rows, times = _selected(capture)
    return every.of(rows, **times)


def all_processes_known(capture: Capture) -> bool:
    """Return True if the export has the process of each GPU operation, selected or not."""
    return _all_operations(capture.whole)[1]


def positions_of(capture: Capture) -> NDArray[Any]:
    """Return the positions of the selected operations among those of the whole capture."""
    if not capture.view.selection.narrows:
        return np.arange(len(gpu_operations_of(capture)), dtype=np.int32)
    return _selected(capture)[0]


@per_capture
def _selected(capture: Capture) -> tuple[NDArray[np.int32], dict[str, NDArray[Any]]]:
    """Return the positions of the selected operations by start, and their times if these are cut."""
    every, has_processes = _all_operations(capture.whole)
    selection, cut = capture.view.selection, {}
    if has_processes and not selection.nvtx:  # then a stream is selected as a whole, in the window
        owners = {"global_pid": every.streams.global_pid, "device_id": every.streams.device_id}
        kept = select(owners, selection, capture.window)[every.stream]
        if selection.windowed:
            times = {"start_ns": every.start_ns, "end_ns": every.end_ns}
            kept &= capture.window.holding(times, clip=bool(selection.clip))
        rows = np.flatnonzero(kept).astype(np.int32)
        if clipped(capture):
            cut = capture.window.clip({name: getattr(every, name)[rows] for name in SPANS})
    else:
        place = places_of(capture.whole)
        rows_of = {kind: place[kind][capture.columns(kind, "row")["row"] - 1] for kind in place}
        rows = np.concatenate([np.empty(0, np.int32), *rows_of.values()])
        if clipped(capture):
            parts = [tuple(capture.columns(kind, *SPANS).values()) for kind in rows_of]
            cut = (
                dict(zip(SPANS, map(np.concatenate, zip(*parts, strict=True)), strict=True)) if parts else {}
            )
        order = np.argsort(rows)
        rows, cut = rows[order], {name: values[order] for name, values in cut.items()}
    if cut:
        by_start = _in_order(every, rows, cut["start_ns"])
        rows, cut = rows[by_start], {name: values[by_start] for name, values in cut.items()}
    return rows, cut


def _in_order(every: GpuOperations, rows: NDArray[Any], begins: NDArray[Any]) -> NDArray[Any] | slice:
    """Order positions by start where starts were cut; equal ones in the order of KINDS and their tables."""
    moved = np.flatnonzero(begins != every.start_ns[rows])
    if not len(moved):
        return slice(None)
    last = len(rows)
    if (np.diff(begins) >= 0).all():  # then only what begins as a cut one does can be out of order
        last = int(np.searchsorted(begins, begins[moved[-1]], "right"))
    head = rows[:last]
    ordered = np.lexsort((every.row[head], every.kind[head], begins[:last]))
    return np.append(ordered, np.arange(last, len(rows)))


@per_capture
def places_of(whole: Capture) -> dict[str, NDArray[np.int32]]:
    """Return the position among all operations of each event, by kind; kinds without events are left out."""
    (every, _), places = _all_operations(whole), {}
    for number, kind in enumerate(KINDS):
        mine = np.flatnonzero(every.kind == number)
        if len(mine):
            places[kind] = np.empty(len(mine), np.int32)
            places[kind][every.row[mine]] = mine
    return places


@per_capture
def _all_operations(capture: Capture) -> tuple[GpuOperations, bool]:
    """Return the operations of a whole capture, and whether the export has the process of each."""
    kinds = [kind for kind in KINDS if capture.has(kind)]
    has_processes = all((capture.columns(k, "global_pid")["global_pid"] != MISSING).all() for k in kinds)
    parts = [_of_kind(capture, kind) for kind in kinds]
    capture.release(call_table)
    if not parts:
        return _NO_OPERATIONS, has_processes
    codes, keys = group_keys(*map(np.concatenate, zip(*(part.streams for part in parts), strict=True)))
    ends = np.cumsum([len(part.streams.stream_id) for part in parts])[:-1]
    numbers = np.split(codes.astype(np.int32), ends)
    streams = np.concatenate([number[part.stream] for number, part in zip(numbers, parts, strict=True)])
    order = np.argsort(np.concatenate([part.start_ns for part in parts]), kind="stable")

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])[order]

    operations = GpuOperations(
        **{name: column(name) for name in ("kind", "row", *SPANS, "call", "migration")},
        stream=streams[order],
        streams=Streams(*keys),
    )
    return operations, has_processes


@per_capture
def pieces_of(capture: Capture) -> GpuOperations:
    """Return the selected GPU operations, cut where they cross the time between selected NVTX ranges.

    Each piece lies in one range, so that their durations and unions are selected time. An operation in
    several ranges has a piece in each: pieces are not a number of operations.
    """
    operations = gpu_operations_of(capture)
    if not (clipped(capture) and capture.window.several):
        return operations
    parts = [(np.empty(0, np.int64),) * 3]
    for process in operations.processes:
        mine = np.flatnonzero(operations.global_pid == process)
        times = operations.start_ns[mine], operations.end_ns[mine]
        row, start, end = capture.window.of_process(process).split(*times)
        parts.append((mine[row], start, end))
    rows, starts, ends = map(np.concatenate, zip(*parts, strict=True))
    order = np.lexsort((operations.kind[rows], starts))
    return operations.of(rows[order], start_ns=starts[order], end_ns=ends[order])


def places_among(operations: GpuOperations, pieces: GpuOperations) -> NDArray[Any]:
    """Return the position of each piece's operation among ``operations``; -1 if it is none of these."""
    if not len(operations):
        return np.full(len(pieces), -1)
    key, wanted = (part.kind.astype(np.int64) << _KIND_SHIFT | part.row for part in (operations, pieces))
    order = np.argsort(key, kind="stable")
    place = order[np.minimum(np.searchsorted(key, wanted, sorter=order), len(order) - 1)]
    return np.where(key[place] == wanted, place, -1)


def selected_ns(capture: Capture, operations: GpuOperations) -> NDArray[Any]:
    """Return the selected time of each operation in ns, without the time between selected NVTX ranges."""
    time_ns: NDArray[Any] = operations.end_ns - operations.start_ns
    if clipped(capture) and capture.window.several:
        for process in operations.processes:
            mine = operations.global_pid == process
            intervals = capture.window.of_process(process)
            time_ns[mine] = intervals.clipped_durations(operations.start_ns[mine], operations.end_ns[mine])
    return time_ns


def clipped(capture: Capture) -> bool:
    """Return True if operations are clipped to a selected time."""
    return bool(capture.view.selection.clip) and capture.view.selection.windowed


def operation_notes(capture: Capture) -> tuple[Note, ...]:
    """Return the notes on how the operations of the whole capture met their calls."""
    whole = capture.whole
    return process_notes(whole, *KINDS) if whole.has("api") else ()


def _of_kind(capture: Capture, kind: str) -> GpuOperations:
    columns, calls = capture.columns(kind, *_FIELDS), _calls(capture, kind)
    migration = np.zeros(len(calls), dtype=bool)
    if kind == MEMCPY:
        migration = one_of(capture.columns(kind, "copy_kind")["copy_kind"], UNIFIED_MEMORY_KINDS)
    columns["global_pid"] = _with_known_processes(capture, columns["global_pid"], calls)
    codes, streams = group_keys(*(columns.pop(field) for field in Streams._fields))
    return GpuOperations(
        kind=np.full(len(calls), KINDS.index(kind), np.int8),
        row=np.arange(len(calls), dtype=np.int32),
        **columns,
        stream=codes.astype(np.int32),
        call=calls,
        migration=migration,
        streams=Streams(*streams),
    )


def _with_known_processes(whole: Capture, processes: NDArray[Any], calls: NDArray[Any]) -> NDArray[Any]:
    """Replace missing process ids of trimmed exports by that of the launch call, or of the only process."""
    if not whole.has("api") or not (processes == MISSING).any():
        return processes
    callers = whole.columns("api", "global_tid")["global_tid"] & PROCESS_MASK
    every = ascending(callers)
    known = np.where(calls >= 0, callers[calls], every[0] if len(every) == 1 else MISSING)
    return np.where(processes == MISSING, known, processes)


def _calls(whole: Capture, kind: str) -> NDArray[Any]:
    """Return each operation's outermost launch call: the runtime call rather than the driver call in it."""
    calls = np.full(whole.count(kind), -1, np.int32)
    if whole.has("api"):
        pairs = launch_pairs_of(whole, kind)
        operations, api = pairs.operation, pairs.api
        if (np.diff(operations) == 0).any():
            span = whole.columns("api", "start_ns", "end_ns")
            order = np.lexsort((-span["end_ns"][api], span["start_ns"][api], operations))
            operations, first = np.unique(operations[order], return_index=True)
            api = api[order][first]
        calls[operations] = api
    return calls


def names(capture: Capture, operations: GpuOperations) -> TextColumn:
    """Return the name of each operation: kernels in the view's form, the others as nsys names them."""
    codes, texts = np.zeros(len(operations), np.int32), list[str | None]()
    for number, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == number)
        if len(mine):
            part = names_of_kind(capture, kind, operations.row[mine])
            codes[mine] = part.codes + len(texts)
            texts += part.texts
    return TextColumn(codes, texts)


def names_of_kind(capture: Capture, kind: str, rows: NDArray[Any]) -> TextColumn:
    """Return the names of operations of one kind, at positions among all of that kind."""
    if kind == KERNEL:
        return TextColumn(*packed_names(capture.whole, kind))[rows]
    if kind == MEMCPY:
        return _copy_names(capture, rows)
    return TextColumn.repeated(MEMSET_NAME if kind == MEMSET else GRAPH_NAME, len(rows))


def name_notes(capture: Capture, operations: GpuOperations) -> tuple[str, ...]:
    """Return the notes on the names of these operations."""
    copies = (operations.kind == KINDS.index(MEMCPY)).any()
    return capture.notes_on_labels("copy_kind") if copies else ()


def _copy_names(capture: Capture, rows: NDArray[Any]) -> TextColumn:
    labels = capture.labels("copy_kind")
    kinds = capture.whole.columns(MEMCPY, "copy_kind")["copy_kind"][rows]
    return look_up(kinds, lambda kind: copy_name(labels.get(kind, f"kind {kind}")))


def window(capture: Capture, operations: GpuOperations) -> tuple[int, int]:
    """Return the start and end of the window in ns: the selection's, or the first start and the last end.

    The ends of a selection are moved to the capture's own start and end if they lie outside, provided that
    the export has its duration. Operations that are selected but not clipped extend the window. Of several
    selected NVTX ranges it lasts from the first to the last: ``windows`` leaves out the time between them.
    """
    first, last = int(operations.start_ns.min()), int(operations.end_ns.max())
    chosen = [capture.window.of_process(process) for process in operations.processes]
    start, end = min(int(part.start[0]) for part in chosen), max(int(part.end[-1]) for part in chosen)
    if start != LEAST:
        first = min(max(start, 0) if capture.info.duration_ns else start, first)
    if end != MOST:
        last = max(min(end, capture.info.duration_ns or end), last)
    return first, last


def windows(capture: Capture, operations: GpuOperations) -> IntervalSet:
    """Return the time that operations of one or several processes are compared with, in ns.

    It is one interval, that of ``window``, unless several NVTX ranges are selected: then it is their union,
    without the time between them. Operations that are not clipped extend it.
    """
    first, last = window(capture, operations)
    if not capture.window.several:
        return IntervalSet(np.array([first]), np.array([last]))
    chosen = [capture.window.of_process(process) for process in operations.processes]
    start, end = (np.clip(np.concatenate(times), first, last) for times in zip(*chosen, strict=True))
    if not clipped(capture):
        start, end = np.append(start, operations.start_ns), np.append(end, operations.end_ns)
    return union(start, end)


def previous_ends(operations: GpuOperations) -> NDArray[Any]:
    """Return the latest end of the earlier operations in the stream of each operation, in ns.

    MISSING for the first operation of a stream, and for migrations of unified memory, which have no stream.
    """
    ends = np.full(len(operations), MISSING)
    migrates = operations.migration.any()
    for part in operations.by_stream:
        rows = (part[~operations.migration[part]] if migrates else part).astype(np.intp)
        ends[rows[1:]] = np.maximum.accumulate(operations.end_ns.take(rows))[:-1]
    return ends


def communicating(capture: Capture, operations: GpuOperations) -> NDArray[Any]:
    """Mark the communication kernels, classified by their full names."""
    marks = np.zeros(len(operations), dtype=bool)
    communicates = _communicating_kernels(capture.whole) if capture.whole.has(KERNEL) else None
    if communicates is not None:
        kernels = np.flatnonzero(operations.kind == KINDS.index(KERNEL))
        marks[kernels] = communicates[operations.row[kernels]]
    return marks


@per_capture
def _communicating_kernels(whole: Capture) -> NDArray[np.bool_] | None:
    """Mark the communication kernels; None without any."""
    codes, classes = kernel_classes(whole.viewed(classes=()))
    return codes == classes.index("communication") if "communication" in classes else None
