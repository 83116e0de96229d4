"""Lanes of what ran on GPUs: one for each device and stream, kernels by class and copies by direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.gpu_operations import COPY, KERNEL, KINDS, SET, work
from nsyswrap.analysis.kernel_classes import kernel_classes
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.global_ids import process_ids
from nsyswrap.render.colors import GRAPH, MEMSET, copy_color, kernel_color
from nsyswrap.render.plots.lanes import Kind, Lane, busiest, shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import Work
    from nsyswrap.capture.capture import Capture

MOST_STREAMS = 16
_SET, _GRAPH = Kind(1, "memset", MEMSET, hangs=True), Kind(0, "CUDA graph", GRAPH)


def gpu_lanes(capture: Capture, edges: NDArray[Any]) -> tuple[list[Lane], int]:
    """Return a lane per device and stream, and how many streams of less work have none."""
    operations = work(capture)
    unified = operations.migration
    contexts, streams = (
        np.where(unified, MISSING, ids) for ids in (operations.context_id, operations.stream_id)
    )
    codes, keys = group_keys(operations.device_id, operations.global_pid, contexts, streams)
    kept = busiest(codes, operations.end_ns - operations.start_ns, MOST_STREAMS)
    kind, kinds = _kinds(capture, operations)
    lanes = []
    for code, label in zip(kept.tolist(), _labels([key[kept] for key in keys]), strict=True):
        mine = np.flatnonzero(codes == code)
        spans = (operations.start_ns[mine], operations.end_ns[mine], kind[mine])
        lanes.append(Lane(label, shares(*spans, kinds, edges)))
    return lanes, len(keys[0]) - len(kept)


def _kinds(capture: Capture, operations: Work) -> tuple[NDArray[Any], list[Kind]]:
    """Return the number of each operation's kind, and the kinds: classes of kernels, directions of copies."""
    number = np.empty(len(operations), np.int64)
    kinds: list[Kind] = []
    for position, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == position)
        if len(mine):
            codes, names = _named(capture, kind, operations.row[mine])
            number[mine] = codes + len(kinds)
            kinds += names
    return number, kinds


def _named(capture: Capture, kind: str, rows: NDArray[Any]) -> tuple[NDArray[Any] | int, list[Kind]]:
    if kind == KERNEL:
        codes, classes = kernel_classes(capture.whole)
        return codes[rows], [Kind(0, f"{name} kernels", kernel_color(name)) for name in classes]
    if kind == COPY:
        labels = capture.labels("copy_kind")
        found = capture.whole.columns(COPY, "copy_kind")["copy_kind"][rows]
        known, codes = np.unique(found, return_inverse=True)
        names = [labels.get(number, f"copy of kind {number}") for number in known.tolist()]
        return codes, [Kind(1, name, copy_color(name), hangs=True) for name in names]
    return 0, [_SET if kind == SET else _GRAPH]


def _labels(keys: list[NDArray[Any]]) -> list[str]:
    """Name streams by device; by process and context too where several of these have lanes."""
    devices, global_pids, contexts, streams = keys
    pids = process_ids(global_pids)
    several_pids = len(set(pids.tolist())) > 1
    several_contexts = len(set(contexts[contexts != MISSING].tolist())) > 1
    return [
        " ".join(
            part
            for part, there in (
                (f"GPU {device}", device != MISSING),
                (f"pid {pid}", several_pids and pid != MISSING),
                (f"context {context}", several_contexts and context != MISSING),
                ("unified memory" if stream == MISSING else f"stream {stream}", True),
            )
            if there
        )
        for device, pid, context, stream in zip(
            *(key.tolist() for key in (devices, pids, contexts, streams)), strict=True
        )
    ]
