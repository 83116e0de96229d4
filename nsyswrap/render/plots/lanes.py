"""Lanes of the timeline plot: the part of each bin of time that every kind of event takes.

A lane has at most BINS values for each kind, however many events there are. Each device and stream has a
lane, with kernels by class and copies by direction. Each host thread has a lane for its CUDA API calls, and
one for each nesting level of its NVTX ranges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct, group_keys, order_by_code, rows_by
from nsyswrap.analysis.arrays.intervals import overlap, union
from nsyswrap.analysis.arrays.spans import Spans
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, MEMCPY, MEMSET, gpu_operations_of
from nsyswrap.analysis.names import kernel_classes, most_frequent
from nsyswrap.analysis.nvtx_ranges import nested_ranges
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.global_ids import process_ids, thread_ids
from nsyswrap.render import colors
from nsyswrap.render.colors import API, GRAPH, NVTX, copy_color, kernel_color

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture


BINS = 600  # each about a pixel on a screen

MOST_STREAMS = 16
MOST_THREADS, MOST_LEVELS = 6, 3
_MOST_DIRECTIONS = 16  # of copies; nsys has fewer
_SINGLE = 4  # bins; a longer NVTX range is drawn by itself

NamedSpans = tuple[Spans, list[str | None]]  # spans, and the name of each


class Kind(NamedTuple):
    """A kind of event, sorted as in the legend. A kind that ``hangs`` is drawn from the lane's upper edge."""

    order: int
    label: str
    color: str
    hangs: bool = False


_MEMSET, _GRAPH = Kind(1, "memset", colors.MEMSET, hangs=True), Kind(0, "CUDA graph", GRAPH)
NVTX_RANGE, API_CALL = Kind(2, "NVTX range", NVTX), Kind(2, "CUDA API call", API)


class Range(NamedTuple):
    """An NVTX range that is drawn by itself; times in ns."""

    start_ns: int
    end_ns: int
    name: str | None


@dataclass(frozen=True)
class Lane:
    """One row of the timeline: for each kind the part of each bin that it takes, and single ranges."""

    label: str
    shares: dict[Kind, NDArray[Any]]
    ranges: list[Range] = field(default_factory=list)


def bins(start_ns: int, end_ns: int) -> NDArray[Any]:
    """Return the BINS + 1 bin edges of a window in ns. A window shorter than BINS ns has fewer."""
    return np.unique(np.linspace(start_ns, max(end_ns, start_ns + 1), BINS + 1).round().astype(np.int64))


def shares(
    start: NDArray[Any], end: NDArray[Any], kind: NDArray[Any], kinds: Sequence[Kind], edges: NDArray[Any]
) -> dict[Kind, NDArray[Any]]:
    """Return for each kind the part of every bin in which at least one of its events was open.

    ``kind`` is each event's position in ``kinds``. Events outside all bins are left out.
    """
    share_of = {}
    for (number,), mine in rows_by(kind).items():
        cover = union(start[mine], end[mine])
        taken = overlap(cover.start, cover.end, edges[:-1], edges[1:])
        if taken.any():
            share_of[kinds[number]] = taken / np.diff(edges)
    return share_of


def busiest(codes: NDArray[Any], duration_ns: NDArray[Any], most: int) -> NDArray[Any]:
    """Return the ``most`` codes with the most time, ascending."""
    total = np.bincount(codes, duration_ns)
    return np.sort(np.argsort(-total, kind="stable")[:most])


def gpu_lanes(capture: Capture, edges: NDArray[Any]) -> tuple[list[Lane], int]:
    """Return a lane for each of the busiest streams, and the number of streams without a lane."""
    operations = gpu_operations_of(capture)
    unified = operations.migration
    contexts, streams = (
        np.where(unified, MISSING, ids) for ids in (operations.context_id, operations.stream_id)
    )
    codes, keys = group_keys(operations.device_id, operations.global_pid, contexts, streams)
    kept = busiest(codes, operations.end_ns - operations.start_ns, MOST_STREAMS)
    kind, kinds = _kinds(capture, operations)
    lanes = []
    rows = np.split(order_by_code(codes, len(keys[0])), np.cumsum(np.bincount(codes))[:-1])
    for code, label in zip(kept.tolist(), _labels([key[kept] for key in keys]), strict=True):
        mine = rows[code]
        spans = (operations.start_ns[mine], operations.end_ns[mine], kind[mine])
        lanes.append(Lane(label, shares(*spans, kinds, edges)))
    return lanes, len(keys[0]) - len(kept)


def _kinds(capture: Capture, operations: GpuOperations) -> tuple[NDArray[Any], list[Kind]]:
    """Return for each operation the position of its kind, and the kinds.

    Kernels have a kind for each class, copies one for each direction.
    """
    number = np.empty(len(operations), np.int64)
    kinds: list[Kind] = []
    for position, kind in enumerate(KINDS):
        mine = np.flatnonzero(operations.kind == position)
        if len(mine):
            codes, new_kinds = _kinds_of(capture, kind, operations.row[mine])
            number[mine] = codes + len(kinds)
            kinds += new_kinds
    return number, kinds


def _kinds_of(capture: Capture, kind: str, rows: NDArray[Any]) -> tuple[NDArray[Any] | int, list[Kind]]:
    if kind == KERNEL:
        codes, classes = kernel_classes(capture.whole)
        return codes[rows], [Kind(0, f"{name} kernels", kernel_color(name)) for name in classes]
    if kind == MEMCPY:
        labels = capture.labels("copy_kind")
        copy_kind = capture.whole.columns(MEMCPY, "copy_kind")["copy_kind"][rows]
        known, codes = distinct(copy_kind)
        names = [labels.get(number, f"copy of kind {number}") for number in known.tolist()]
        codes, names = most_frequent(codes, names, _MOST_DIRECTIONS, "other copies")
        return codes, [Kind(1, name, copy_color(name), hangs=True) for name in names]
    return 0, [_MEMSET if kind == MEMSET else _GRAPH]


def _labels(keys: list[NDArray[Any]]) -> list[str]:
    """Name streams by device, and by process and context if there are several of these."""
    devices, global_pids, contexts, streams = keys
    pids = process_ids(global_pids)
    several_pids = len(set(pids.tolist())) > 1
    several_contexts = len(set(contexts[contexts != MISSING].tolist())) > 1
    return [
        " ".join(
            part
            for part, named in (
                (f"GPU {device}", device != MISSING),
                (f"pid {pid}", several_pids and pid != MISSING),
                (f"context {context}", several_contexts and context != MISSING),
                ("unified memory" if stream == MISSING else f"stream {stream}", True),
            )
            if named
        )
        for device, pid, context, stream in zip(
            *(key.tolist() for key in (devices, pids, contexts, streams)), strict=True
        )
    ]


def host_lanes(capture: Capture, edges: NDArray[Any]) -> tuple[list[Lane], int]:
    """Return the lanes of the busiest threads, and the number of threads without a lane.

    The NVTX lanes of a thread are above its API lane.
    """
    ranges, names = nvtx_spans(capture)
    calls = api_spans(capture)
    threads = np.concatenate((calls.thread, ranges.thread))
    if not len(threads):
        return [], 0
    known, codes = np.unique(threads, return_inverse=True)
    duration_ns = np.concatenate((calls.end - calls.start, ranges.end - ranges.start))
    kept = known[busiest(codes, duration_ns, MOST_THREADS)].tolist()
    lanes: list[Lane] = []
    for tid in kept:
        label = _label(capture, tid, several=len(set(process_ids(known).tolist())) > 1)
        mine = np.flatnonzero(ranges.thread == tid)
        lanes += _range_lanes(label, _of(ranges, mine), [names[i] for i in mine.tolist()], edges)
        mine = np.flatnonzero(calls.thread == tid)
        if taken := shares(calls.start[mine], calls.end[mine], np.zeros_like(mine), [API_CALL], edges):
            lanes.append(Lane(f"{label} API", taken))
    return lanes, len(known) - len(kept)


def api_spans(capture: Capture) -> Spans:
    """Return all CUDA API calls; empty if the capture has none."""
    if not capture.has("api"):
        return Spans(*(np.empty(0, np.int64) for _ in range(3)))
    return Spans(*capture.columns("api", "global_tid", "start_ns", "end_ns").values())


def nvtx_spans(capture: Capture) -> NamedSpans:
    """Return the NVTX ranges that ended on their thread, and their names without a leading colon."""
    if not capture.has("nvtx"):
        return Spans(*(np.empty(0, np.int64) for _ in range(3))), []
    ranges = nested_ranges(capture)
    ended = np.flatnonzero(ranges.spans.end != MISSING)
    names = [name and name.removeprefix(":") for name in ranges.labels(ranges.code[ended])]
    return _of(ranges.spans, ended), names


def _of(spans: Spans, rows: NDArray[Any]) -> Spans:
    return Spans(*(part[rows] for part in spans))


def _label(capture: Capture, tid: int, *, several: bool) -> str:
    number = int(thread_ids(np.array(tid)))
    name = capture.threads.get(tid, (None, None))[1] or "thread"
    return f"pid {int(process_ids(np.array(tid)))} {name} {number}" if several else f"{name} {number}"


def _range_lanes(label: str, spans: Spans, names: list[str | None], edges: NDArray[Any]) -> list[Lane]:
    """Return a lane for each nesting level. Long ranges stay single, the others become shares."""
    level = _levels(spans)
    long = (
        (spans.end - spans.start >= _SINGLE * np.diff(edges).max())
        & (spans.end > edges[0])
        & (spans.start < edges[-1])
    )
    lanes = []
    for number in range(min(MOST_LEVELS, int(level.max(initial=-1)) + 1)):
        short = np.flatnonzero((level == number) & ~long)
        single = np.flatnonzero((level == number) & long).tolist()
        taken = shares(spans.start[short], spans.end[short], np.zeros_like(short), [NVTX_RANGE], edges)
        ranges = [Range(int(spans.start[i]), int(spans.end[i]), names[i]) for i in single]
        if taken or ranges:
            lanes.append(Lane(f"{label} NVTX" if not number else "", taken, ranges))
    return lanes


def _levels(spans: Spans) -> NDArray[Any]:
    """Return for each range the number of ranges open at its start. Of equal starts the longest is first."""
    order = np.lexsort((-spans.end, spans.start))
    closed = np.searchsorted(np.sort(spans.end), spans.start[order], "right")
    level = np.empty(len(order), np.int64)
    level[order] = np.maximum(np.arange(len(order)) - closed, 0)
    return level
