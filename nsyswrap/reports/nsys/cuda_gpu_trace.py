"""GPU trace: every kernel, copy and memset, with its device, stream and size.

Throughput is computed as nsys does, in whole operations a second. It is too low, and 0 for operations longer
than a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.analysis.arrays.groups import MOST
from nsyswrap.analysis.names import MEMSET_NAME, copy_name, event_names, look_up
from nsyswrap.base.constants import MISSING, NS_PER_S
from nsyswrap.base.units import Unit
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED, SPANS
from nsyswrap.reports.table import KERNEL_NAMES, Column, Order, Report, Result, Schema, Values

_PLACES = ("context_id", "green_context_id", "stream_id")
_ALL = ("start_ns", "correlation_id", "device_id", *_PLACES)  # of every kind of operation
_COUNTS = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread")
_SHARED = ("static_shared_bytes", "dynamic_shared_bytes")

_LABELS = {"kernel": (), "memcpy": ("copy_kind", "mem_kind"), "memset": ("mem_kind",)}  # enums, by kind
_NO_GPUS = "this export has no TARGET_INFO_GPU: devices are listed without their name"


def compute(capture: Capture) -> Result:
    """Return one row per operation: kernels, then copies, then memsets, each in row order."""
    parts = [
        {**_operations(capture, kind), **more(capture)}
        for kind, more in (("kernel", _kernels), ("memcpy", _copies), ("memset", _memsets))
        if capture.has(kind)
    ]
    return Result(
        {column.name: _joined([_filled(part, column) for part in parts]) for column in SCHEMA.columns},
        tuple(_notes(capture)),
    )


def _notes(capture: Capture) -> Iterator[str]:
    for kind, enums in _LABELS.items():
        if capture.has(kind):
            yield from capture.notes_on_fields(kind, "green_context_id")
            yield from () if capture.gpu_names else (_NO_GPUS,)
            yield from capture.notes_on_labels(*enums)


def _filled(columns: Mapping[str, Values], column: Column) -> Values:
    """Return a column of one kind of operation, filled with missing values if that kind lacks it."""
    if column.name in columns:
        return columns[column.name]
    rows = len(columns["start_ns"])
    return TextColumn.repeated(None, rows) if column.unit is Unit.TEXT else np.full(rows, MISSING)


def _joined(parts: list[Values]) -> Values:
    texts = [part for part in parts if isinstance(part, TextColumn)]
    return TextColumn.joined(texts) if texts else np.concatenate([np.asarray(part) for part in parts])


def _operations(capture: Capture, kind: str) -> dict[str, Values]:
    """Return the columns that all operations have: times and places."""
    rows = capture.columns(kind, *_ALL)
    gpus = capture.gpu_names
    # Migrations of unified memory have no context and no stream. Up to 2024 nsys printed their 0.
    blank = _PLACES if capture.view.rounding == "2025" else ("green_context_id",)
    return {
        **rows,
        **{field: np.where(rows[field] == 0, MISSING, rows[field]) for field in blank},
        "duration_ns": capture.durations(kind),
        "device": look_up(rows["device_id"], lambda device: f"{gpus.get(device, '')} ({device})"),
    }


def _kernels(capture: Capture) -> dict[str, Values]:
    return {**capture.columns("kernel", *_COUNTS, *_SHARED), "name": event_names(capture, "kernel")}


def _copies(capture: Capture) -> dict[str, Values]:
    rows = capture.columns("memcpy", "copy_kind", "src_kind", "dst_kind")
    copies, memory = capture.labels("copy_kind"), capture.labels("mem_kind")
    return {
        **_moved(capture, "memcpy"),
        "src_mem_kind": look_up(rows["src_kind"], memory.get),
        "dst_mem_kind": look_up(rows["dst_kind"], memory.get),
        "name": look_up(rows["copy_kind"], lambda kind: copy_name(copies[kind]) if kind in copies else None),
    }


def _memsets(capture: Capture) -> dict[str, Values]:
    kinds = capture.columns("memset", "mem_kind")["mem_kind"]
    return {
        **_moved(capture, "memset"),
        "src_mem_kind": look_up(kinds, capture.labels("mem_kind").get),
        "name": TextColumn.repeated(MEMSET_NAME, len(kinds)),
    }


def _moved(capture: Capture, kind: str) -> dict[str, NDArray[Any]]:
    """Return the bytes of copies or memsets, and nsys' throughput; missing for a duration of 0."""
    size, duration = capture.columns(kind, "bytes")["bytes"], capture.durations(kind)
    per_second = NS_PER_S // np.maximum(duration, 1)
    if (size.astype(float) * per_second).max(initial=0) > MOST:
        raise OverflowError
    return {"size_bytes": size, "throughput_bytes_per_s": np.where(duration > 0, size * per_second, MISSING)}


SCHEMA = Schema(
    "cuda_gpu_trace",
    "CUDA GPU Trace",
    Column("start_ns", "Start", "when the operation began on the GPU"),
    Column("duration_ns", "Duration", "GPU time of the operation"),
    Column("correlation_id", "CorrId", "correlation id, also of the API call behind it", 6),
    *(
        Column.count(f"{field}_{axis}", f"{header}{axis.upper()}", f"{what} in dimension {axis}", 5)
        for field, header, what in (("grid", "Grd", "blocks"), ("block", "Blk", "threads of a block"))
        for axis in "xyz"
    ),
    Column.count("registers_per_thread", "Reg/Trd", "registers of each thread", 7),
    Column("static_shared_bytes", "StcSMem", "shared memory the kernel declares", 7),
    Column("dynamic_shared_bytes", "DymSMem", "shared memory the launch asked for", 7),
    Column("size_bytes", "Bytes", "what a copy moved or a memset wrote"),
    Column(
        "throughput_bytes_per_s",
        "Throughput",
        "nsys' throughput, low by up to one part in as many as such operations fit into a second",
        1,
    ),
    Column("src_mem_kind", "SrcMemKd", "memory a copy read, or a memset wrote", 4),
    Column("dst_mem_kind", "DstMemKd", "memory a copy wrote", 4),
    Column("device", "Device", "name and number of the GPU", 2),
    Column("context_id", "Ctx", "CUDA context", 8),
    Column("green_context_id", "GreenCtx", "green context, where there is one", 9),
    Column("stream_id", "Strm", "CUDA stream", 3),
    Column("name", "Name", "kernel name, direction of the copy, or memset", kernels=True),
)

REPORT = Report(
    SCHEMA,
    needs=(("kernel", "memcpy", "memset"),),
    compute=compute,
    order=(Order("start_ns"),),
    qualifiers=KERNEL_NAMES,
    reads={
        "kernel": (*NAMED, *_ALL, *_COUNTS, *_SHARED),
        "memcpy": (*SPANS, *_ALL, "copy_kind", "src_kind", "dst_kind", "bytes"),
        "memset": (*SPANS, *_ALL, "mem_kind", "bytes"),
    },
)
