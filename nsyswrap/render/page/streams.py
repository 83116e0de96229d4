"""The lanes of devices: one per stream, kernels by class, copies by direction; one for unified memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct, group_keys
from nsyswrap.analysis.gpu_operations import COPY, GRAPH, GRAPH_NAME, KERNEL, KINDS, SET, work
from nsyswrap.analysis.kernel_names import classify
from nsyswrap.analysis.names import MEMSET, copy_name, name_codes
from nsyswrap.capture.global_ids import process_ids
from nsyswrap.render.page.lanes import COPIES, KERNELS, Lane, nothing, said, split, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import Work
    from nsyswrap.capture.capture import Capture

    Coded = tuple[NDArray[Any], Sequence[Any]]  # a number per operation, and what the numbers stand for

_LAST = np.iinfo(np.int64).max  # in place of context and stream: migrations are in none, and come last
_ALONE = {SET: ((COPIES, "memset"), MEMSET), GRAPH: ((KERNELS, "graph"), GRAPH_NAME)}


def streams(capture: Capture) -> Iterator[Lane]:
    """Yield the lanes of all devices and processes, by stream."""
    operations = work(capture)
    if not len(operations):
        return
    series, kinds = _coded(capture, operations, _kinds)
    name, names = _coded(capture, operations, _names)
    context, stream = (
        np.where(operations.migration, _LAST, part) for part in (operations.context_id, operations.stream_id)
    )
    codes, keys = group_keys(operations.device_id, operations.global_pid, context, stream)
    several = len(np.unique(context[context != _LAST])) > 1
    rows = split(np.argsort(codes, kind="stable"), codes)
    for mine, device, owner, *place in zip(rows, *(part.tolist() for part in keys), strict=True):
        yield Lane(
            group=f"GPU {said(device)} · process {said(int(process_ids(np.array(owner))))}",
            title=_title(*place, several=several),
            start_ns=operations.start_ns[mine],
            end_ns=operations.end_ns[mine],
            series=series[mine],
            kinds=kinds,
            name=name[mine],
            names=texts(names),
            row=nothing(len(mine)),
            call=operations.call[mine],
        )


def _title(context: int, stream: int, *, several: bool) -> str:
    if stream == _LAST:
        return "unified memory"
    return f"stream {said(stream)} · context {said(context)}" if several else f"stream {said(stream)}"


def _coded(capture: Capture, operations: Work, of_kind: Any) -> Coded:  # noqa: ANN401 - one of the two below
    """Put what is told of each kind of operation together."""
    every: list[Any] = []
    numbers = np.zeros(len(operations), np.int64)
    for number, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == number)
        if len(mine):
            codes, found = of_kind(capture, kind, operations.row[mine])
            numbers[mine] = codes + len(every)
            every += found
    return numbers, every


def _kinds(capture: Capture, kind: str, rows: NDArray[Any]) -> Coded:
    """Return the family of operations, and what they are in it."""
    if kind in _ALONE:
        return np.zeros(len(rows), np.int64), [_ALONE[kind][0]]
    if kind == KERNEL:
        ids, codes = distinct(capture.whole.columns(kind, "name")["name"][rows])
        classes = [classify(capture.text(i), capture.view.classes) for i in ids.tolist()]
        return codes, [(KERNELS, name) for name in classes]
    codes, directions = _directions(capture, rows)
    return codes, [(COPIES, direction) for direction in directions]


def _names(capture: Capture, kind: str, rows: NDArray[Any]) -> Coded:
    """Return what operations are called: kernels as the view calls them, the rest as nsys does."""
    if kind in _ALONE:
        return np.zeros(len(rows), np.int64), [_ALONE[kind][1]]
    if kind == KERNEL:
        codes, names = name_codes(capture.whole, kind)
        return codes[rows], names
    codes, directions = _directions(capture, rows)
    return codes, [copy_name(direction) for direction in directions]


def _directions(capture: Capture, rows: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    labels = capture.labels("copy_kind")
    ids, codes = distinct(capture.whole.columns(COPY, "copy_kind")["copy_kind"][rows])
    return codes, [labels.get(i, f"kind {i}") for i in ids.tolist()]
