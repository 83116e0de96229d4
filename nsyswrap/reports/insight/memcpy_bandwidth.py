"""Copies and memsets by direction, kind of memory and size: bytes, time and bandwidth.

Bandwidth is the sum of the bytes over the sum of the durations, in bytes/s; 1 GB is 10^9 bytes. The
throughput column of nsys divides integers and is too low. Operations without a true duration are excluded and
counted: those that took no time, those faster than the GPU's memory, and peer copies through the host, of
which nsys times one piece.

If a time window cuts an operation, sums have the time inside the window, and bytes in proportion. Counts and
medians are of whole operations.

The peak is known only for the GPU's own memory. A copy inside a GPU reads and writes each byte, so its peak
is half of the memory's bandwidth; that of a memset is all of it. A copy that fits the L2 cache can be faster.

Migrations of unified memory have rows of their own, by direction. The driver starts them and chooses their
sizes, so they are in no copy's bandwidth. ``um_migrations`` has more about them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import GroupBy, group_keys
from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.gpu_operations import READS, operation_notes
from nsyswrap.analysis.names import MEMSET_NAME, copy_name
from nsyswrap.analysis.transfers import (
    MEMSET_KIND,
    NO_TIME,
    STAGED,
    TOO_FAST,
    Transfers,
    bandwidths,
    compute_overlap,
    gpu_memory,
    inside_gpu,
    timed,
    transfers,
    waiting_calls,
)
from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import Unit, human
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import NAMED
from nsyswrap.reports.table import BY_TOTAL, TOTAL_TIME, Column, Report, Result, Schema, Values

KIB = 1024
UP_TO = {
    4 * KIB: "4 KiB",
    64 * KIB: "64 KiB",
    KIB**2: "1 MiB",
    16 * KIB**2: "16 MiB",
    256 * KIB**2: "256 MiB",
}
LARGER = "larger"
_NOT_TIMED = {
    NO_TIME: "took no time",
    STAGED: "went between two GPUs through the host, and nsys timed only one part",
    TOO_FAST: "ran faster than the GPU's memory allows: the time is not that of the transfer",
}


def compute(capture: Capture) -> Result:
    """Return one row per kind of operation, kinds of memory and class of size."""
    every = transfers(capture)
    named = np.isin(every.kind, [*capture.labels("copy_kind"), MEMSET_KIND])
    moved = every.of(named)
    classes = np.searchsorted(list(UP_TO), moved.size_bytes)
    classes[moved.operations.migration] = MISSING
    codes, (kind, source, target, size) = group_keys(moved.kind, moved.src_kind, moved.dst_kind, classes)
    labels, memory = capture.labels("copy_kind"), {**capture.labels("mem_kind"), MISSING: None}
    return Result(
        {
            "operation": [MEMSET_NAME if k == MEMSET_KIND else copy_name(labels[k]) for k in kind.tolist()],
            "src_kind": [memory.get(k, f"kind {k}") for k in source.tolist()],
            "dst_kind": [memory.get(k, f"kind {k}") for k in target.tolist()],
            "up_to": [
                None if number == MISSING else [*UP_TO.values(), LARGER][number] for number in size.tolist()
            ],
            **_totals(capture, moved, codes, len(kind)),
            **bandwidths(capture, moved, codes, len(kind)),
            **waiting_calls(capture, moved, codes, len(kind)),
        },
        (*_label_notes(capture, named), *_notes(capture, moved)),
    )


def _totals(capture: Capture, moved: Transfers, codes: NDArray[Any], rows: int) -> dict[str, NDArray[Any]]:
    """Return the totals of all operations in each row; ``codes`` has the row of each operation."""
    groups = GroupBy(codes, rows)
    start, end = moved.operations.start_ns, moved.operations.end_ns
    overlap = compute_overlap(capture, moved.operations.global_pid, moved.operations.device_id, start, end)
    return {
        "count": np.bincount(codes, minlength=rows),
        "total_bytes": np.rint(np.bincount(codes, moved.selected_bytes, rows)).astype(np.int64),
        "total_ns": groups.totals(moved.selected_ns),
        "med_bytes": groups.quantile(moved.size_bytes, 0.5),
        "med_ns": groups.quantile(moved.duration_ns, 0.5),
        "overlap_ns": groups.totals(overlap),
    }


def _label_notes(capture: Capture, named: NDArray[Any]) -> Iterator[Note | str]:
    yield from operation_notes(capture)
    yield from capture.notes_on_labels("copy_kind")
    if not named.all():
        yield f"{_count(~named)} excluded: the export has no name for that kind of copy"
    yield from capture.notes_on_labels("mem_kind")


def _notes(capture: Capture, moved: Transfers) -> Iterator[str]:
    memory = gpu_memory(capture)
    worth = timed(moved, memory)
    for reason, text in _NOT_TIMED.items():
        if (worth == reason).any():
            yield f"{_count(worth == reason)} {text}; excluded from bandwidths"
    if moved.memory_unknown.any():
        yield f"memory kinds of {_count(moved.memory_unknown)} are not in the export"
    if np.isnan(memory.bytes_per_s) and inside_gpu(moved).any():
        yield "peak bandwidth of the GPU's memory unknown: not in the export, or the GPUs differ"
    if not capture.whole.has("api"):
        yield (
            "no CUDA API calls recorded: asynchronous copies are unknown (nsyswrap profile --trace cuda,nvtx)"
        )
    if (several := moved.copies > 1).any():
        copies = int(moved.copies[several].sum())
        yield f"{_count(several)} stand for {copies:,} copies (copyCount); each counts as one"


def _count(marked: NDArray[Any]) -> str:
    number = int(np.count_nonzero(marked))
    return f"{number:,} operation{'' if number == 1 else 's'}"


def conclude(_: Capture, data: Mapping[str, Values]) -> str:
    """Return how long asynchronous copies of pageable memory blocked their callers; empty if none did."""
    number, took = (np.asarray(data[name]) for name in ("async_pageable", "async_pageable_ns"))
    if not (number > 0).any():
        return ""
    calls, time = (int(part[number > 0].sum()) for part in (number, took))
    return (
        f"Pageable memory: {calls:,} asynchronous call{'' if calls == 1 else 's'} blocked the host for "
        f"{human(time, Unit.NS)}; use pinned memory."
    )


SCHEMA = Schema(
    "memcpy_bandwidth",
    "Copy bandwidth by direction, memory and size",
    Column("operation", "Operation", "direction of the copy, or memset"),
    Column("src_kind", "Src Kind", "kind of memory copied from; missing for migrations"),
    Column("dst_kind", "Dst Kind", "kind of memory copied to, or set; missing for migrations"),
    Column(
        "up_to",
        "Size <=",
        "largest size of an operation in the row; missing for migrations, which share one row",
    ),
    Column("count", "Count", "number of operations"),
    Column(
        "total_bytes",
        "Size",
        "sum of the bytes; a partly selected operation counts in proportion to its time",
    ),
    TOTAL_TIME,
    Column(
        "bandwidth_bytes_per_s",
        "Bandwidth",
        "sum of bytes / sum of durations, without excluded operations; 1 GB is 10^9",
    ),
    Column("link_percent", "Of Peak", "bandwidth as a share of the peak bandwidth", 2),
    Column.count(
        "async_pageable",
        "Pageable Async",
        "asynchronous calls on pageable memory: they block the host during the copy to a buffer, "
        "or the whole copy",
        3,
    ),
    Column("async_pageable_ns", "Pageable API", "CPU time in the asynchronous calls on pageable memory", 4),
    Column(
        "overlap_ns",
        "Overlapped",
        "part of the total time overlapped with a kernel or graph of the same process on the device",
        5,
    ),
    Column.count(
        "left_out",
        "Excluded",
        "operations without a bandwidth: they took no time, or their time is not the transfer's",
        6,
    ),
    Column(
        "link_bytes_per_s",
        "Peak Bandwidth",
        "peak bandwidth of the GPU's memory: half of it for copies inside a GPU, all for memsets; "
        "missing for transfers with the host or another GPU, whose link exports do not name",
        7,
    ),
    Column(
        "aggregate_bytes_per_s",
        "Aggregate Bandwidth",
        "sum of bytes / time with at least one of the operations in progress, per device",
        8,
    ),
    Column("med_bandwidth_bytes_per_s", "Median Bandwidth", "median bandwidth of one whole operation", 9),
    Column("med_bytes", "Median Size", "median size of one whole operation", 10),
    Column("med_ns", "Median Time", "median duration of one whole operation", 11),
)

REPORT = Report(
    SCHEMA,
    needs=(("memcpy", "memset"),),
    compute=compute,
    order=BY_TOTAL,
    reads={
        **READS,
        "memcpy": (*READS["memcpy"], "bytes", "src_kind", "dst_kind", "copy_count"),
        "memset": (*READS["memset"], "bytes", "mem_kind"),
        "api": (*READS["api"], *NAMED),
        "gpu": ("memory_bytes_per_s", "l2_bytes", "memory_bytes"),
    },
    conclude=conclude,
)
