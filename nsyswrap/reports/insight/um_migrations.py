"""Unified memory migrations by process, device, direction and cause, with page faults.

The driver migrates pages after a page fault, when it expects one, or as cudaMemPrefetchAsync asks. Kernels
that need these pages wait until they have migrated.

Pages are 4 KiB. A page came back if it also migrated the other way, in the same process. It came back
repeatedly if it migrated this way more than once. A page that was freed and whose address was used again
counts as the same page. A page that migrated for several causes is in several rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import GroupBy, group_keys
from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.gpu_operations import operation_notes
from nsyswrap.analysis.transfers import (
    PAGE_BYTES,
    bytes_within,
    compute_overlap,
    page_counts,
    pages_by_process,
    per_s,
)
from nsyswrap.base.constants import MISSING
from nsyswrap.base.text import counted
from nsyswrap.base.units import Unit, human
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import SPANS, UNIFIED_MEMORY_KINDS
from nsyswrap.capture.selection import process_ids
from nsyswrap.reports.table import BY_TOTAL, TOTAL_TIME, Column, Report, Result, Schema, Values
from nsyswrap.reports.unified_memory import window_notes

Arrays = dict[str, NDArray[Any]]

FAULTS = {"um_gpu_fault": "GPU page fault", "um_cpu_fault": "CPU page fault"}
_MOVE = ("copy_kind", "migration_cause", "global_pid", "device_id", "bytes", "address", *SPANS)


def compute(capture: Capture) -> Result:
    """Return the rows of migrations, then those of page faults on GPUs and on the CPU."""
    moved = _migrations(capture)
    tables = [_moves(capture, moved)]
    tables += [_gpu_faults(capture)] if capture.has("um_gpu_fault") else []
    tables += [_cpu_faults(capture)] if capture.has("um_cpu_fault") else []
    texts = {name: [text for table in tables for text in table.pop(name)] for name in ("event", "cause")}
    numbers = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return Result({**texts, **numbers}, tuple(_notes(capture, moved)))


def _migrations(capture: Capture) -> Arrays:
    """Return the fields of the selected migrations, with ``selected_ns`` and their whole durations."""
    kinds = capture.columns("memcpy", "copy_kind")["copy_kind"] if capture.has("memcpy") else ()
    rows = np.flatnonzero(np.isin(kinds, UNIFIED_MEMORY_KINDS))
    if not len(rows):
        return {field: np.empty(0, np.int64) for field in (*_MOVE, "selected_ns", "whole_ns")}
    moved = {field: values[rows] for field, values in capture.columns("memcpy", *_MOVE, "row").items()}
    span = capture.whole.columns("memcpy", *SPANS)
    moved["selected_ns"] = capture.durations("memcpy")[rows]
    moved["whole_ns"] = (span["end_ns"] - span["start_ns"])[moved.pop("row") - 1]
    return moved


def _moves(capture: Capture, moved: Arrays) -> dict[str, Any]:
    keys = (moved["global_pid"], moved["device_id"], moved["copy_kind"], moved["migration_cause"])
    codes, (process, device, kind, cause) = group_keys(*keys)
    groups = GroupBy(codes, len(kind))
    size, span = groups.of(moved["bytes"]), (moved["start_ns"], moved["end_ns"])
    within = bytes_within(moved["bytes"], moved["whole_ns"], moved["selected_ns"])
    timed = np.where(moved["whole_ns"] > 0, within, 0)
    total, in_time = (np.bincount(codes, part, len(kind)) for part in (within, timed))
    time = groups.of(moved["selected_ns"])
    directions = capture.labels("copy_kind")
    # Exports misspell one of the labels.
    causes = {**capture.labels("migration_cause"), **schema.ENUMS["migration_cause"][1], MISSING: None}
    return {
        "process_id": process_ids(process),
        "device_id": device,
        "event": [directions.get(number, f"kind {number}") for number in kind.tolist()],
        "cause": [causes.get(number, f"cause {number}") for number in cause.tolist()],
        "count": size.count,
        "total_bytes": np.rint(total).astype(np.int64),
        "total_ns": time.total,
        "bandwidth_bytes_per_s": per_s(in_time, time.total),
        "med_bytes": size.med,
        "overlap_ns": groups.totals(compute_overlap(capture, *keys[:2], *span)),
        **page_counts(moved, codes, kind),
    }


def _gpu_faults(capture: Capture) -> dict[str, Any]:
    """Return one row per process and device. One event stands for many faults, at one of their addresses."""
    faults = capture.columns("um_gpu_fault", "global_pid", "device_id", *SPANS, "faults")
    place, span = ((faults[a], faults[b]) for a, b in (("global_pid", "device_id"), SPANS))
    codes, (process, device) = group_keys(*place)
    groups = GroupBy(codes, len(process))
    return {
        **_no_figures("um_gpu_fault", process, device),
        "count": groups.totals(faults["faults"]),
        "total_ns": groups.totals(capture.durations("um_gpu_fault")),
        "overlap_ns": groups.totals(compute_overlap(capture, *place, *span)),
    }


def _cpu_faults(capture: Capture) -> dict[str, Any]:
    """Return one row per process. Faults on the CPU have no device and no duration."""
    faults = capture.columns("um_cpu_fault", "global_pid", "address")
    codes, [process] = group_keys(faults["global_pid"])
    known = faults["address"] != MISSING
    _, (row, _) = group_keys(codes[known], faults["address"][known] // PAGE_BYTES)
    return {
        **_no_figures("um_cpu_fault", process, np.full_like(process, MISSING)),
        "count": np.bincount(codes),
        "pages": np.bincount(row, minlength=len(process)),
    }


def _no_figures(kind: str, process: NDArray[Any], device: NDArray[Any]) -> dict[str, Any]:
    """Return rows of page faults with all other columns missing."""
    rows = len(process)
    whole = ("total_bytes", "total_ns", "overlap_ns", "pages", "returned_pages", "bounced_pages")
    return {
        "process_id": process_ids(process),
        "device_id": device,
        "event": [FAULTS[kind]] * rows,
        "cause": [None] * rows,
        **{name: np.full(rows, MISSING) for name in whole},
        **{name: np.full(rows, np.nan) for name in ("bandwidth_bytes_per_s", "med_bytes")},
    }


def _notes(capture: Capture, moved: Arrays) -> Iterator[Note | str]:
    migrated = len(moved["bytes"]) > 0
    yield from capture.notes_on_fields("memcpy", "address", "migration_cause") if migrated else ()
    yield from window_notes(capture)
    missing = [kind for kind in FAULTS if not capture.whole.has(kind)]
    if not migrated:
        yield "no migrations: unified memory was not used, or its pages did not move"
    elif missing:
        faults = " and ".join(f"{FAULTS[kind]}s" for kind in missing)
        command = schema.collecting(*(schema.EVENTS[kind] for kind in missing))
        yield f"{faults} are not in this capture: none occurred, or they were not traced ({command})"
    yield from capture.notes_on_labels("copy_kind", "migration_cause")
    yield from operation_notes(capture)


def conclude(capture: Capture, _: Mapping[str, Values]) -> str:
    """Return how much memory migrated back and forth; empty if none did."""
    moved = _migrations(capture)
    pages = most = again = 0
    for by_process in pages_by_process(moved, np.zeros(len(moved["bytes"]), np.int64)):
        length, times = by_process.back_and_forth()
        pages += int(length.sum())
        again += int((length * (times - 2)).sum())
        most = max(most, int(times.max(initial=0)))
    if not pages:
        return ""
    return (
        f"{counted(pages, 'pages')} of 4 KiB bounced between CPU and GPU, up to {most:,} migrations each: "
        f"{human(again * PAGE_BYTES, Unit.BYTES)} of {human(int(moved['bytes'].sum()), Unit.BYTES)} "
        "migrated were pages that had moved there and back before."
    )


SCHEMA = Schema(
    "um_migrations",
    "Unified memory migrations",
    Column("event", "Event", "direction of the migrations, or page faults"),
    Column("cause", "Cause", "cause of the migration; speculative: the driver expected a fault"),
    Column("count", "Count", "number of migrations, or of page faults"),
    Column("total_bytes", "Size", "sum of the bytes migrated"),
    TOTAL_TIME,
    Column("bandwidth_bytes_per_s", "Bandwidth", "sum of bytes / sum of durations; 1 GB is 10^9"),
    Column(
        "overlap_ns",
        "Overlapped",
        "part of the total time overlapped with a kernel or graph of the same process on the device",
        1,
    ),
    Column.count("pages", "Pages", "distinct pages of 4 KiB that migrated, or that the CPU faulted on", 2),
    Column.count("returned_pages", "Returned Pages", "pages that also migrated in the other direction", 3),
    Column.count(
        "bounced_pages",
        "Bounced Pages",
        "pages that migrated this way more than once, and also the other way",
        4,
    ),
    Column("med_bytes", "Median Size", "median size of one migration", 5),
    Column("device_id", "Device", "GPU that the pages migrated to or from", 6),
    Column("process_id", "PID", "process of the pages", 7),
)

REPORT = Report(
    SCHEMA,
    needs=(("memcpy", "um_gpu_fault", "um_cpu_fault"),),
    compute=compute,
    order=BY_TOTAL,
    conclude=conclude,
)
