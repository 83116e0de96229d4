"""Busy and idle time of each GPU by process: kernels, copies, memsets, communication and their overlap.

Busy is the time in which at least one operation ran: kernels, whole-graph executions, copies, memsets,
migrations of unified memory. Utilization is its share of the window. The window lasts from the first
operation to the last, or is the selected time. The window of several NVTX ranges is their union, without the
time between them. A device that several processes used also has a row for all of them, without a process.

Kernels and whole-graph executions are compute. What a graph that was recorded whole contains is not known.
Copies are those that the program called for. Communication kernels, such as those of NCCL, are known by their
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.gpu_operations import (
    GRAPH,
    KERNEL,
    KINDS,
    MEMCPY,
    MEMSET,
    READS,
    GpuOperations,
    communicating,
    gpu_operations_of,
    operation_notes,
    pieces_of,
    window,
    windows,
)
from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import Unit, duration, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import IntervalSet, intersection, joined, union
from nsyswrap.capture.selection import machine_ids, process_ids
from nsyswrap.reports.table import Column, Report, Result, Schema, Values


def compute(capture: Capture) -> Result:
    """Return one row per device and process, and one before these for a shared device."""
    operations = pieces_of(capture)
    communicates = communicating(capture, operations)
    rows = [
        {
            **_usage(capture, operations.of(mine), communicates[mine]),
            "process_id": process,
            "device_id": device,
        }
        for process, device, mine in _users(operations)
    ]
    data = {column.name: np.array([row[column.name] for row in rows]) for column in SCHEMA.columns}
    return Result(data, tuple(_notes(capture, gpu_operations_of(capture))))


def _users(operations: GpuOperations) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Yield process id, device id and operations of each row. MISSING stands for all processes."""
    pairs = list(operations.by_device())
    places = [(int(machine_ids(np.array(process))), device) for process, device, _ in pairs]
    for place in sorted(set(places)):
        mine = [pair for pair, where in zip(pairs, places, strict=True) if where == place]
        if len(mine) > 1:
            yield MISSING, place[1], np.sort(np.concatenate([rows for _, _, rows in mine]))
        for process, device, rows in mine:
            yield int(process_ids(np.array(process))), device, rows


def _usage(capture: Capture, operations: GpuOperations, communicates: NDArray[Any]) -> dict[str, float]:
    """Return the columns of one row without process and device."""
    kernels, copies, sets, graphs = (
        operations.kind == KINDS.index(kind) for kind in (KERNEL, MEMCPY, MEMSET, GRAPH)
    )
    copies &= ~operations.migration

    def cover(which: NDArray[Any]) -> IntervalSet:
        return union(operations.start_ns[which], operations.end_ns[which])

    kernel, graph, communication = cover(kernels), cover(graphs), cover(communicates)
    computing = joined(kernel, graph) if len(graph.start) else kernel
    first, last = window(capture, operations)
    whole = windows(capture, operations).length
    durations = operations.end_ns - operations.start_ns
    busy, copying = union(operations.start_ns, operations.end_ns).length, cover(copies)
    hidden = intersection(copying, computing).length
    beside = 0
    if len(communication.start):
        beside = intersection(communication, cover((kernels & ~communicates) | graphs)).length
    unknown = bool(graphs.any()) and not communication.length  # whether anything communicated in the graphs
    return {
        "start_ns": first,
        "end_ns": last,
        "window_ns": whole,
        "busy_ns": busy,
        "idle_ns": whole - busy,
        "utilisation_percent": _percent(busy, whole),
        "kernel_total_ns": int(durations[kernels].sum()),
        "kernel_busy_ns": kernel.length,
        "graph_busy_ns": graph.length,
        "copy_busy_ns": copying.length,
        "set_busy_ns": cover(sets).length,
        "migration_busy_ns": cover(operations.migration).length,
        "copy_overlap_ns": hidden,
        "copy_hidden_percent": _percent(hidden, copying.length),
        "communication_busy_ns": MISSING if unknown else communication.length,
        "communication_overlap_ns": MISSING if unknown else beside,
        "communication_hidden_percent": np.nan if unknown else _percent(beside, communication.length),
        "concurrency": int(durations.sum()) / busy if busy else np.nan,
    }


def _percent(value: int, whole: int) -> float:
    """Return the percentage, or NaN if ``whole`` is 0."""
    return 100.0 * value / whole if whole else np.nan


def _notes(capture: Capture, operations: GpuOperations) -> Iterator[Note | str]:
    """Yield what is not known, what is assumed, and what has no row."""
    yield from operation_notes(capture)
    pairs = {(process, device) for process, device, _ in operations.by_device()}
    places = [(int(machine_ids(np.array(process))), device) for process, device in pairs]
    if graphs := int((operations.kind == KINDS.index(GRAPH)).sum()):
        yield (
            f"whole-graph executions ({graphs:,}) count as compute; their kernels and copies are not "
            "recorded (collect with nsyswrap profile --graphs node)"
        )
    if shared := sorted({place[1] for place in places if places.count(place) > 1}):
        yield (
            f"several processes used device {', '.join(map(str, shared))}; the row without a process "
            "is wrong if their CUDA_VISIBLE_DEVICES differ"
        )
    installed, used = len(capture.gpu_names), len(set(places))
    if not capture.view.selection.narrows and used < installed:
        yield f"{installed} GPUs in the machine, operations recorded on {used}"
    for process, device in sorted(_chosen_pairs(capture) - pairs):
        number = int(process_ids(np.array(process)))
        yield f"no row for process {number} on device {device}: no operation in the selection"


def _chosen_pairs(capture: Capture) -> set[tuple[int, int]]:
    """Return the pairs of process and device with work that the selection does not exclude by id."""
    chosen = capture.view.selection
    return {
        (process, device)
        for process, device, _ in gpu_operations_of(capture.whole).by_device()
        if not chosen.devices or device in chosen.devices
        if not chosen.processes or process_ids(np.array(process)) in chosen.processes
        if capture.window.selects_process(process)
    }


def conclude(capture: Capture, data: Mapping[str, Values]) -> str:
    """Return how busy each device was, with which work, and how much copying overlapped with it."""
    rows = [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]
    shared = {row["device_id"] for row in rows if row["process_id"] == MISSING}
    rows = [row for row in rows if row["process_id"] == MISSING or row["device_id"] not in shared]
    rows = [row for row in rows if row["window_ns"]]
    if not rows:
        return ""
    where = "In the selection" if capture.view.selection.windowed else "From first to last operation"
    names = [f"device {row['device_id']}" for row in rows] if len(rows) > 1 else ["the GPU"]
    sentences = [f"{name} was busy {_busy(row)}" for name, row in zip(names, rows, strict=True)]
    sentences[_ROWS_IN_VERDICT:] = [f"{len(sentences) - _ROWS_IN_VERDICT} more"] * (
        len(sentences) > _ROWS_IN_VERDICT
    )
    return f"{where} {'; '.join(sentences)}.{_hidden(rows)}"


def _busy(row: Mapping[str, Any]) -> str:
    """Return how busy the GPU of one row was, and with which work."""
    kinds = {name: row[f"{kind}_busy_ns"] for kind, name in _KIND_NAMES.items()}
    parts = [f"{name} {duration(ns)}" for name, ns in sorted(kinds.items(), key=lambda kind: -kind[1]) if ns]
    with_what = f" ({', '.join(parts)})" if parts else ""
    times = f"{duration(row['busy_ns'])} of {duration(row['window_ns'])}"
    return f"{percent(row['utilisation_percent'])} of the time, {times}{with_what}"


def _hidden(rows: list[dict[str, Any]]) -> str:
    """Return how much copying and communication overlapped with computation; empty without any."""
    text = ""
    for kind, what in _OVERLAPPING.items():
        known = [row for row in rows if row[f"{kind}_busy_ns"] > 0]
        total, hidden = (sum(int(row[f"{kind}_{part}_ns"]) for row in known) for part in ("busy", "overlap"))
        if total:
            text += f" {percent(100 * hidden / total)} of {duration(total)} of {what}."
    return text


_ROWS_IN_VERDICT = 4
_KIND_NAMES = {
    "kernel": "kernels",
    "graph": "graphs",
    "copy": "copies",
    "set": "memsets",
    "migration": "migrations",
}
_OVERLAPPING = {
    "copy": "copying overlapped with kernels or graphs",
    "communication": "communication overlapped with other kernels or graphs",
}
_OUTSIDE = "; excludes whole graphs"

SCHEMA = Schema(
    "gpu_time",
    "GPU time by device and process",
    Column("device_id", "Device", "device the operations ran on"),
    Column("process_id", "PID", "process of the operations; missing: all processes on the device"),
    Column("start_ns", "Start", "start of the window: first operation, or start of the selection", 9),
    Column("end_ns", "End", "end of the window: last operation, or end of the selection", 9),
    Column("window_ns", "Window", "length of the window, without the time between NVTX ranges"),
    Column("busy_ns", "Busy", "time in which at least one operation ran"),
    Column("idle_ns", "Idle", "time in the window without any operation", 1),
    Column("utilisation_percent", "Utilization", "busy share of the window, not how full the GPU was"),
    Column("kernel_total_ns", "Kernel Time", f"sum of the kernels' durations, as in nsys{_OUTSIDE}", 4),
    Column("kernel_busy_ns", "Kernel Busy", f"time in which a kernel ran{_OUTSIDE}"),
    Column("graph_busy_ns", "Graph Busy", "time in which a graph recorded as a whole ran", 3),
    Column("copy_busy_ns", "Copy Busy", f"time in which a copy of the program ran{_OUTSIDE}"),
    Column("set_busy_ns", "Memset Busy", f"time in which a memset ran{_OUTSIDE}", 6),
    Column("migration_busy_ns", "Migration Busy", "time in which unified memory pages migrated", 5),
    Column("copy_overlap_ns", "Copy Overlap", "time in which copies overlapped with kernels or graphs", 7),
    Column("copy_hidden_percent", "Copy Hidden", "the same as a share of the copies' time", 2),
    Column(
        "communication_busy_ns",
        "Comm Busy",
        "time in which communication kernels (NCCL) ran; excludes whole graphs; missing if only "
        "whole graphs can contain any",
        5,
    ),
    Column(
        "communication_overlap_ns",
        "Comm Overlap",
        "time in which communication overlapped with other kernels or graphs; missing as for Comm Busy",
        7,
    ),
    Column(
        "communication_hidden_percent",
        "Comm Hidden",
        "the same as a share of the communication's time; missing also without communication",
        5,
    ),
    Column(
        "concurrency",
        "Concurrency",
        "sum of all durations / busy time: mean number of operations at once",
        3,
        unit=Unit.RATIO,
    ),
)

REPORT = Report(
    SCHEMA,
    needs=(KINDS,),
    compute=compute,
    reads={**READS, "kernel": (*READS["kernel"], "name")},
    conclude=conclude,
)
