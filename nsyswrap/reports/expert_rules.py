"""Share code between nsys' expert rules: the row limit, and the calls that started copies and memsets."""

from __future__ import annotations

from collections.abc import Mapping
from re import Pattern
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.correlation import equal_pairs
from nsyswrap.analysis.names import calls_named, look_up
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import EVENTS, PROCESS_MASK, SPANS
from nsyswrap.capture.selection import process_ids
from nsyswrap.reports.table import Column, ReportOption, Result

Arrays = Mapping[str, NDArray[Any] | TextColumn]  # a value per column and row

ROWS = ReportOption("rows", 50, "maximum number of rows; negative: all")
LONGEST = "the longest"
KINDS = {"memcpy": ("src_kind", "dst_kind"), "memset": ("mem_kind",)}  # of memory, by kind of operation
_ON_GPU = ("device_id", "context_id", "green_context_id", "stream_id")
_COPIED = (*SPANS, "bytes", "global_pid", *_ON_GPU)
# The fields that ``started_by`` reads, by kind of event.
READS = {
    **{kind: (*_COPIED, "correlation_id", *fields) for kind, fields in KINDS.items()},
    "api": ("name", "global_tid", "correlation_id"),
}


def limited(data: Arrays, rows: int, which: str) -> tuple[Arrays, tuple[str, ...]]:
    """Return the first ``rows`` rows, and a note that says ``which`` they are if others are left out."""
    total = len(next(iter(data.values())))
    if not 0 <= rows < total:
        return data, ()
    return take(data, np.arange(rows)), (f"{rows} of {total} rows ({which}); rows=-1 lists all",)


def take(data: Arrays, rows: NDArray[Any]) -> Arrays:
    """Return these rows of all columns, in this order."""
    return {name: values[rows] for name, values in data.items()}


def memory_kind_notes(capture: Capture, kind: str) -> tuple[str, ...]:
    """Return a note for each field of KINDS that the export does not record."""
    columns = [
        EVENTS[kind].fields[field].columns[0]
        for field, values in capture.columns(kind, *KINDS[kind]).items()
        if (values == MISSING).all()
    ]
    return tuple(
        f"{EVENTS[kind].table} has no {column}: memory kinds are unknown, and rows that depend on them "
        "are missing"
        for column in columns
    )


def started_by(capture: Capture, kind: str, chosen: NDArray[Any], pattern: Pattern[str], rows: int) -> Result:
    """Return ``memory_columns`` of the ``chosen`` operations that calls of this name started."""
    operations, calls = _met(capture, kind, chosen, pattern)
    fields = capture.columns(kind, *_COPIED, *KINDS[kind])
    met = {field: values[operations] for field, values in fields.items()}
    green, duration = met["green_context_id"], met["end_ns"] - met["start_ns"]
    labels = capture.labels("mem_kind")
    data = {
        **{field: met[field] for field in ("start_ns", *_ON_GPU)},
        **{field: look_up(met[field], labels.get) for field in KINDS[kind]},
        "duration_ns": duration,
        "size_bytes": met["bytes"],
        "process_id": process_ids(met["global_pid"]),
        "green_context_id": np.where(green == 0, MISSING, green),
        "api_name": look_up(capture.whole.name_ids("api")[calls], capture.text),
    }
    # nsys lists equally long operations by call, those of one call by their start.
    order = np.lexsort((met["start_ns"], calls, -duration))
    first, left_out = limited(take(data, order), rows, LONGEST)
    return Result(
        first,
        (
            *capture.notes_on_fields(kind, "green_context_id"),
            *capture.notes_on_labels("mem_kind"),
            *_foreign_call_notes(capture, met["global_pid"], calls),
            *left_out,
        ),
    )


def _met(
    capture: Capture, kind: str, chosen: NDArray[Any], pattern: Pattern[str]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows of all operations and calls that belong together.

    As in nsys, an operation meets every call with its correlation id, in other processes too.
    """
    calls, operations = calls_named(capture.whole, pattern), np.flatnonzero(chosen)
    call_ids = capture.whole.columns("api", "correlation_id")["correlation_id"][calls]
    operation_ids = capture.columns(kind, "correlation_id")["correlation_id"][operations]
    call, operation = equal_pairs(call_ids, operation_ids)
    return operations[operation], calls[call]


def _foreign_call_notes(capture: Capture, process: NDArray[Any], calls: NDArray[Any]) -> tuple[str, ...]:
    caller = capture.whole.columns("api", "global_tid")["global_tid"][calls] & PROCESS_MASK
    foreign = np.count_nonzero((process != caller) & (process != MISSING))
    text = f"rows with a call of another process: {foreign:,}; nsys matches calls by correlation id alone"
    return (text,) if foreign else ()


def memory_columns(subject: str, *kinds: Column) -> tuple[Column, ...]:
    """Return the columns of a rule on memory, in nsys' order; ``subject`` is copy or memset."""
    return (
        Column("duration_ns", "Duration", f"duration of the {subject} on the GPU"),
        Column("start_ns", "Start", f"start of the {subject} on the GPU", 1),
        *kinds,
        Column("size_bytes", "Bytes", f"size of the {subject}"),
        Column("process_id", "PID", "process of the operation", 3),
        Column("device_id", "Device ID", "GPU that ran the operation", 2),
        Column("context_id", "Context ID", "CUDA context", 7),
        Column("green_context_id", "Green Context ID", "green context, if the operation has one", 9),
        Column("stream_id", "Stream ID", "CUDA stream", 5),
        Column("api_name", "API Name", "API function that started the operation, with its version"),
    )


COPY_COLUMNS = memory_columns(
    "copy",
    Column("src_kind", "Src Kind", "kind of memory copied from"),
    Column("dst_kind", "Dst Kind", "kind of memory copied to"),
)


def device_columns(operation: str) -> tuple[Column, ...]:
    """Return the columns of process, device and context. The context is that of one ``operation``."""
    return (
        Column("process_id", "PID", "process of the operations"),
        Column("device_id", "Device ID", "GPU that ran the operations"),
        Column("context_id", "Context ID", f"CUDA context of the operation {operation}", 2),
    )
