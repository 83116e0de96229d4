"""All that ran on GPUs in one table: kernels, copies, memsets, whole-graph executions, and their calls."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct, group_keys, order_by_code
from nsyswrap.analysis.correlation import launch_pairs_of, process_notes
from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.names import MEMSET, copy_name, look_up, name_codes
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import PROCESS_MASK, UNIFIED_MEMORY_KINDS
from nsyswrap.capture.selection import LEAST, MOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

KINDS = KERNEL, COPY, SET, GRAPH = ("kernel", "memcpy", "memset", "graph")
GRAPH_NAME = "[CUDA graph]"
_FIELDS = ("start_ns", "end_ns", "global_pid", "device_id", "context_id", "stream_id")
# What is read for it, by kind of event.
READS = {
    **dict.fromkeys(KINDS, (*_FIELDS, "row", "correlation_id")),
    COPY: (*_FIELDS, "row", "correlation_id", "copy_kind"),
    "api": ("global_tid", "correlation_id"),
}
_MACHINE_SHIFT = 48


@dataclass(frozen=True)
class GpuOperations:
    """One entry per operation, in order of start, of equal ones as in KINDS; times in ns.

    ``kind`` is the number in KINDS, ``row`` the position among the events of that kind in the whole capture,
    ``call`` that of the outermost call that launched it among the whole capture's API calls, -1 where there
    is none. ``migration`` marks copies that unified memory made of itself: no call launched them.
    """

    kind: NDArray[Any]
    row: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    global_pid: NDArray[Any]
    device_id: NDArray[Any]
    context_id: NDArray[Any]
    stream_id: NDArray[Any]
    call: NDArray[Any]
    migration: NDArray[Any]

    def __len__(self) -> int:
        """Return the number of operations."""
        return len(self.kind)

    def of(self, rows: NDArray[Any]) -> GpuOperations:
        """Return these operations, by position or mark."""
        return GpuOperations(*(getattr(self, field.name)[rows] for field in fields(self)))

    def by_device(self) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Yield global process id and device id (MISSING: not said) of each pair, and its operations."""
        codes, (process, device) = group_keys(self.global_pid, self.device_id)
        found = np.split(order_by_code(codes, len(process)), np.cumsum(np.bincount(codes))[:-1])
        yield from zip(process.tolist(), device.tolist(), found[: len(process)], strict=True)


_known: WeakKeyDictionary[Capture, GpuOperations] = WeakKeyDictionary()


def gpu_operations_of(capture: Capture) -> GpuOperations:
    """Return what ran on GPUs, as the capture's selection leaves it; empty where nothing did."""
    if capture not in _known:
        parts = [_of_kind(capture, kind) for kind in KINDS if capture.has(kind)]
        empty = GpuOperations(
            *(np.empty(0, bool if field.name == "migration" else np.int64) for field in fields(GpuOperations))
        )
        columns = [[getattr(part, field.name) for part in (empty, *parts)] for field in fields(GpuOperations)]
        every = GpuOperations(*(np.concatenate(column) for column in columns))
        _known[capture] = every.of(np.argsort(every.start_ns, kind="stable"))
    return _known[capture]


def operation_notes(capture: Capture) -> tuple[str, ...]:
    """Return the notes on how the operations of the whole capture met their calls."""
    whole = capture.whole
    return process_notes(whole, *KINDS) if whole.has("api") else ()


def _of_kind(capture: Capture, kind: str) -> GpuOperations:
    found = capture.columns(kind, *_FIELDS)
    row = capture.columns(kind, "row")["row"] - 1
    migration = np.zeros(len(row), dtype=bool)
    if kind == COPY:
        migration = np.isin(capture.columns(kind, "copy_kind")["copy_kind"], UNIFIED_MEMORY_KINDS)
    code = np.full(len(row), KINDS.index(kind))
    calls = _calls(capture.whole, kind)[row]
    found["global_pid"] = _owners(capture.whole, found["global_pid"], calls)
    return GpuOperations(kind=code, row=row, **found, call=calls, migration=migration)


def _owners(whole: Capture, processes: NDArray[Any], calls: NDArray[Any]) -> NDArray[Any]:
    """Fill in whose operations are where trimmed exports do not say: their calls', or the only process'."""
    if not whole.has("api") or not (processes == MISSING).any():
        return processes
    callers = whole.columns("api", "global_tid")["global_tid"] & PROCESS_MASK
    every = np.unique(callers)
    known = np.where(calls >= 0, callers[calls], every[0] if len(every) == 1 else MISSING)
    return np.where(processes == MISSING, known, processes)


def _calls(whole: Capture, kind: str) -> NDArray[Any]:
    """Return each operation's outermost call: of a runtime call and the driver call below it, the former."""
    calls = np.full(whole.count(kind), -1)
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


def names(capture: Capture, operations: GpuOperations) -> NDArray[Any]:
    """Return the name of each operation: kernels as the view calls them, the rest as nsys does."""
    whole = capture.whole
    found = np.full(len(operations), None, dtype=object)
    for number, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == number)
        if not len(mine):
            continue
        rows = operations.row[mine]
        if kind == KERNEL:
            codes, texts = name_codes(whole, kind)
            found[mine] = np.array(texts, dtype=object)[codes[rows]]
        elif kind == COPY:
            found[mine] = _copy_names(capture, rows)
        else:
            found[mine] = MEMSET if kind == SET else GRAPH_NAME
    return found


def name_notes(capture: Capture, operations: GpuOperations) -> tuple[str, ...]:
    """Return the notes on the names of these operations."""
    copies = (operations.kind == KINDS.index(COPY)).any()
    return capture.notes_on_labels("copy_kind") if copies else ()


def _copy_names(capture: Capture, rows: NDArray[Any]) -> NDArray[Any]:
    labels = capture.labels("copy_kind")
    kinds = capture.whole.columns(COPY, "copy_kind")["copy_kind"][rows]
    return look_up(kinds, lambda kind: copy_name(labels.get(kind, f"kind {kind}")))


def window(capture: Capture, operations: GpuOperations) -> tuple[int, int]:
    """Return the first start and the last end, in ns, or the ends that the selection sets.

    What is selected without being cut off there can begin before and end after them: then that counts. Before
    the capture began and after its end, where the export says when that was, nothing was idle.
    """
    first, last = int(operations.start_ns.min()), int(operations.end_ns.max())
    start, end = capture.window.start_ns, capture.window.end_ns
    if start != LEAST:
        first = min(max(start, 0) if capture.info.duration_ns else start, first)
    if end != MOST:
        last = max(min(end, capture.info.duration_ns or end), last)
    return first, last


def machine_ids(global_ids: NDArray[Any]) -> NDArray[Any]:
    """Return what tells the machines apart inside global process ids: device ids repeat between them."""
    return global_ids >> _MACHINE_SHIFT


def previous_ends(operations: GpuOperations) -> NDArray[Any]:
    """Return when the stream of each operation was last busy before it, in ns; MISSING where it never was.

    That is the latest end of the operations that started before it in the same stream. Migrations of unified
    memory are in no stream.
    """
    ends = np.full(len(operations), MISSING)
    known = np.flatnonzero(~operations.migration)
    keys = (operations.global_pid, operations.device_id, operations.context_id, operations.stream_id)
    codes, _ = group_keys(*(key[known] for key in keys))
    by_stream = np.argsort(codes, kind="stable")
    for rows in np.split(known[by_stream], np.flatnonzero(np.diff(codes[by_stream])) + 1):
        ends[rows[1:]] = np.maximum.accumulate(operations.end_ns[rows])[:-1]
    return ends


def communicating(capture: Capture, operations: GpuOperations) -> NDArray[Any]:
    """Mark the kernels that communicate, by their full names, whatever the view calls them."""
    found = np.zeros(len(operations), dtype=bool)
    kernels = np.flatnonzero(operations.kind == KINDS.index(KERNEL))
    if len(kernels):
        ids, positions = distinct(capture.whole.columns(KERNEL, "name")["name"])
        talks = np.array([classify(capture.text(i) or "") == "communication" for i in ids.tolist()])
        found[kernels] = talks[positions][operations.row[kernels]]
    return found
