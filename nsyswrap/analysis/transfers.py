"""Compute sizes, memory kinds and bandwidths of copies, memsets and page migrations.

Asynchronous calls that block because of pageable memory are found here too. A page of unified memory is
4 KiB. Addresses and sizes of migrations are multiples of that, and one migration moves up to 2 MiB. Addresses
are those of one process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import ColumnSet
from nsyswrap.analysis.arrays.groups import GroupBy, ascending, group_keys, rows_by
from nsyswrap.analysis.gpu_operations import (
    KINDS,
    MEMCPY,
    MEMSET,
    GpuOperations,
    clipped,
    gpu_operations_of,
    pieces_of,
    places_among,
    selected_ns,
)
from nsyswrap.analysis.names import with_name
from nsyswrap.base.constants import MISSING
from nsyswrap.base.lazy import regex
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import union
from nsyswrap.capture.schema import ON_DEVICE, PAGEABLE, SPANS, UM_TO_DEVICE, UM_TO_HOST
from nsyswrap.capture.stream import one_of

Figures = dict[str, NDArray[Any]]  # by column, one entry per row


MEMSET_KIND = -1  # no kind of copy has this number
_BETWEEN_HOST_AND_DEVICE = (1, 2, 3, 4)  # kinds of copies, including those of arrays
_INSIDE_DEVICE = (5, 6, 7, 8)
_SPAN = {"size_bytes": "bytes", "start_ns": "start_ns", "end_ns": "end_ns"}
_SOURCES = {
    MEMCPY: {
        **_SPAN,
        "kind": "copy_kind",
        "src_kind": "src_kind",
        "dst_kind": "dst_kind",
        "copies": "copy_count",
    },
    MEMSET: {**_SPAN, "dst_kind": "mem_kind"},
}

TIMED, NO_TIME, STAGED, TOO_FAST = range(4)  # how a duration can be used

_ASYNCHRONOUS = regex("cu(da)?Memcpy.*Async", re.IGNORECASE)

PAGE_BYTES = 4096
_OTHER_WAY = {UM_TO_DEVICE: UM_TO_HOST, UM_TO_HOST: UM_TO_DEVICE}


class Memory(NamedTuple):
    """GPU memory: bandwidth in bytes/s, size of the L2 cache and of all in bytes; NaN if unknown."""

    bytes_per_s: float
    cache_bytes: float
    size_bytes: float


@dataclass(frozen=True, eq=False)
class Transfers(ColumnSet):
    """One entry per copy and memset, by start.

    ``kind`` is the kind of copy, or MEMSET_KIND. ``src_kind`` and ``dst_kind`` are kinds of memory, MISSING
    for migrations and if not recorded. ``copies`` is the number of copies in one entry, or MISSING. Times in
    ``operations`` and their durations, ``selected_ns``, are clipped to the selection. ``start_ns``,
    ``end_ns`` and ``size_bytes`` are whole.
    """

    operations: GpuOperations
    kind: NDArray[Any]
    src_kind: NDArray[Any]
    dst_kind: NDArray[Any]
    size_bytes: NDArray[Any]
    copies: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    selected_ns: NDArray[Any]

    @property
    def duration_ns(self) -> NDArray[Any]:
        """The whole duration of each transfer in ns, not clipped to the selection."""
        return self.end_ns - self.start_ns  # type: ignore[no-any-return]

    @property
    def selected_bytes(self) -> NDArray[Any]:
        """The bytes of each transfer in the selected time, in proportion to its time there."""
        return bytes_within(self.size_bytes, self.duration_ns, self.selected_ns)

    @property
    def memory_unknown(self) -> NDArray[Any]:
        """Mark explicit copies and memsets whose kind of memory is not recorded."""
        source = (self.src_kind == MISSING) & (self.kind != MEMSET_KIND)
        unknown: NDArray[Any] = (source | (self.dst_kind == MISSING)) & ~self.operations.migration
        return unknown


def transfers(capture: Capture) -> Transfers:
    """Return the selected copies, migrations of unified memory and memsets."""
    every = gpu_operations_of(capture)
    mine = every.of(~every.computes)
    columns = {field: np.full(len(mine), MISSING) for field in _SOURCES[MEMCPY]}
    for kind, sources in _SOURCES.items():
        if capture.has(kind):
            rows = np.flatnonzero(mine.kind == KINDS.index(kind))
            values = capture.whole.columns(kind, *sources.values())
            for field, source in sources.items():
                columns[field][rows] = values[source].take(mine.row[rows])
    columns["kind"][mine.kind == KINDS.index(MEMSET)] = MEMSET_KIND
    for end in ("src_kind", "dst_kind"):
        columns[end][mine.migration] = MISSING
    return Transfers(mine, **columns, selected_ns=selected_ns(capture, mine))


def bytes_within(size: NDArray[Any], whole_ns: NDArray[Any], part_ns: NDArray[Any]) -> NDArray[Any]:
    """Return the bytes, with fractions, that transfers moved in a part of their time.

    One that took no time counts whole.
    """
    return size * np.where(whole_ns > 0, part_ns / np.maximum(whole_ns, 1), 1.0)


def gpu_memory(capture: Capture) -> Memory:
    """Return the memory properties that all GPUs of the machine share; NaN where they differ.

    A device id does not tell which GPU it is, because CUDA_VISIBLE_DEVICES renumbers the GPUs.
    """
    if not capture.whole.has("gpu"):
        return Memory(np.nan, np.nan, np.nan)
    columns = capture.whole.columns("gpu", "memory_bytes_per_s", "l2_bytes", "memory_bytes").values()
    return Memory(*(float(part[0]) if part.min() == part.max() > 0 else np.nan for part in columns))


def inside_gpu(moves: Transfers) -> NDArray[Any]:
    """Mark the transfers inside the memory of one GPU."""
    inside = one_of(moves.kind, _INSIDE_DEVICE)
    for kinds in (moves.src_kind, moves.dst_kind):
        inside &= one_of(kinds, (*ON_DEVICE, MISSING))
    inside |= (moves.kind == MEMSET_KIND) & one_of(moves.dst_kind, ON_DEVICE)
    return inside


def links(moves: Transfers, memory: Memory) -> NDArray[Any]:
    """Return the bandwidth of the link that each transfer uses, in bytes/s; NaN if unknown.

    Exports only have the bandwidth of a GPU's memory. A copy inside a GPU reads and writes each byte, so it
    can reach half of it.
    """
    return np.where(inside_gpu(moves), memory.bytes_per_s / _accesses(moves), np.nan)


def timed(moves: Transfers, memory: Memory) -> NDArray[Any]:
    """Return TIMED for each transfer, or why its recorded duration is not its true duration.

    - NO_TIME: the duration is 0 ns.
    - STAGED: a copy between two GPUs through the host, recorded as host to device or back with both ends in
      devices. The row has all of its bytes, but the duration of one piece.
    - TOO_FAST: more bytes than the GPU's memory and its L2 cache can take in that time.
    """
    staged = one_of(moves.kind, _BETWEEN_HOST_AND_DEVICE)
    staged &= one_of(moves.src_kind, ON_DEVICE) & one_of(moves.dst_kind, ON_DEVICE)
    through_memory = (moves.size_bytes - memory.cache_bytes) * _accesses(moves)
    too_fast = through_memory * 1e9 > memory.bytes_per_s * moves.duration_ns
    return np.select([moves.duration_ns <= 0, staged, too_fast], [NO_TIME, STAGED, TOO_FAST], TIMED)


def _accesses(moves: Transfers) -> NDArray[Any]:
    """Return the number of accesses to a GPU's memory per byte."""
    return np.where(one_of(moves.kind, _INSIDE_DEVICE), 2, 1)


def per_s(size: NDArray[Any], time_ns: NDArray[Any]) -> NDArray[Any]:
    """Return bytes/s; NaN for a time of 0."""
    return np.where(time_ns > 0, size * 1e9 / np.maximum(time_ns, 1), np.nan)


def bandwidths(capture: Capture, moves: Transfers, codes: NDArray[Any], rows: int) -> Figures:
    """Return the bandwidths that the TIMED transfers of each row reached, and that of their link.

    They are those of the selected time, with the bytes moved in it. The median is of whole transfers.
    ``codes`` has the row of each transfer. All transfers of a row use the same kind of link.
    """
    memory = gpu_memory(capture)
    good = timed(moves, memory) == TIMED
    groups, of_time = GroupBy(codes[good], rows), moves.of(good)
    size = np.bincount(codes[good], of_time.selected_bytes, rows)
    one = np.zeros(rows, np.intp)
    one[codes] = np.arange(len(codes))  # a transfer of each row
    link = links(moves.of(one), memory)
    reached = per_s(size, groups.totals(of_time.selected_ns))
    return {
        "bandwidth_bytes_per_s": reached,
        "med_bandwidth_bytes_per_s": groups.quantile(per_s(of_time.size_bytes, of_time.duration_ns), 0.5),
        "aggregate_bytes_per_s": per_s(size, _busy(capture, of_time, codes[good], rows)),
        "link_bytes_per_s": link,
        "link_percent": reached * 100.0 / link,
        "left_out": np.bincount(codes[~good], minlength=rows),
    }


def _busy(capture: Capture, moves: Transfers, codes: NDArray[Any], rows: int) -> NDArray[Any]:
    """Return the selected time with at least one transfer of each row, in ns, summed over devices."""
    busy = np.zeros(rows, np.int64)
    pieces = moves.operations
    if clipped(capture) and capture.window.several:
        pieces = pieces_of(capture)
        place = places_among(moves.operations, pieces)
        pieces, codes = pieces.of(place >= 0), codes[place[place >= 0]]
    for (code, _), mine in rows_by(codes, pieces.device_id).items():
        busy[code] += union(pieces.start_ns[mine], pieces.end_ns[mine]).length
    return busy


def waiting_calls(capture: Capture, moves: Transfers, codes: NDArray[Any], rows: int) -> Figures:
    """Return the number of asynchronous calls that copied pageable memory, and their time in ns.

    Such a call blocks: to the device it fills a staging buffer before it returns, to the host it waits for
    the copy. MISSING if the kind of memory or the calls are not recorded.
    """
    number, took = np.full(rows, MISSING), np.full(rows, MISSING)
    if capture.whole.has("api"):
        pageable = (moves.src_kind == PAGEABLE) | (moves.dst_kind == PAGEABLE)
        # The last is for operations without a call.
        asynchronous = np.append(with_name(capture.whole, _ASYNCHRONOUS), False)
        pageable &= asynchronous[moves.operations.call]
        _, (row, call) = group_keys(codes[pageable], moves.operations.call[pageable])
        api = capture.whole.columns("api", *SPANS)
        calls = GroupBy(row, rows).of(api["end_ns"][call] - api["start_ns"][call])
        known = np.bincount(codes[~moves.memory_unknown], minlength=rows) > 0
        number, took = np.where(known, calls.count, MISSING), np.where(known, calls.total, MISSING)
    return {"async_pageable": number, "async_pageable_ns": took}


def compute_overlap(
    capture: Capture,
    process: NDArray[Any],
    device: NDArray[Any],
    start_ns: NDArray[Any],
    end_ns: NDArray[Any],
) -> NDArray[Any]:
    """Return the time with kernels or graphs in each interval, for its process on its device, in ns.

    If the export lacks the process of either, only the device has to match.
    """
    every = pieces_of(capture)
    overlap_ns = np.zeros_like(start_ns)
    for global_pid, device_id, there in every.by_device():
        computing = there[every.computes.take(there)]
        same = (process == global_pid) | (process == MISSING) | (global_pid == MISSING)
        rows = np.flatnonzero(same & (device == device_id))
        if not len(rows):
            continue
        cover = union(every.start_ns.take(computing), every.end_ns.take(computing))
        overlap_ns[rows] += cover.within(start_ns[rows], end_ns[rows])
    return np.minimum(overlap_ns, end_ns - start_ns)  # type: ignore[no-any-return]


class Pages(NamedTuple):
    """One entry per run of neighboring pages of one process that always migrated together.

    ``length`` is in pages. ``moves`` has the number of migrations by kind of copy, ``by_row`` by row of a
    table.
    """

    length: NDArray[Any]
    moves: dict[int, NDArray[Any]]
    by_row: dict[int, NDArray[Any]]

    def back_and_forth(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return length and migrations of the runs that moved both ways, one of them more than once."""
        there, back = self.moves[UM_TO_DEVICE], self.moves[UM_TO_HOST]
        bounced = (there > 0) & (back > 0) & ((there > 1) | (back > 1))
        return self.length[bounced], (there + back)[bounced]


class _Ranges(NamedTuple):
    """The edges between page ranges, and the positions among them of each migration's first page and end."""

    edges: NDArray[Any]
    first: NDArray[Any]
    end: NDArray[Any]

    def times(self, marks: NDArray[Any]) -> NDArray[Any]:
        """Return how many of the marked migrations moved the pages from each edge to the next."""
        begun, over = (np.bincount(part[marks], minlength=len(self.edges)) for part in self[1:])
        return np.cumsum(begun - over)[:-1]


def pages_by_process(moved: Mapping[str, NDArray[Any]], rows: NDArray[Any]) -> Iterator[Pages]:
    """Yield the pages of each process, without migrations that lack an address.

    ``moved`` has ``global_pid``, ``copy_kind``, ``address`` and ``bytes`` of each migration, ``rows`` has the
    row it belongs to.
    """
    known = np.flatnonzero(moved["address"] != MISSING)
    for process in ascending(moved["global_pid"][known]).tolist():
        mine = known[moved["global_pid"][known] == process]
        address = moved["address"][mine]
        ends = np.concatenate((address // PAGE_BYTES, -(-(address + moved["bytes"][mine]) // PAGE_BYTES)))
        edges, positions = np.unique(ends, return_inverse=True)
        ranges = _Ranges(edges, positions[: len(address)], positions[len(address) :])
        kinds, groups = moved["copy_kind"][mine], rows[mine]
        yield Pages(
            np.diff(ranges.edges),
            {kind: ranges.times(kinds == kind) for kind in _OTHER_WAY},
            {row: ranges.times(groups == row) for row in ascending(groups).tolist()},
        )


def page_counts(
    moved: Mapping[str, NDArray[Any]], rows: NDArray[Any], kinds: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Return the number of pages of each row that migrated, returned and bounced; MISSING without addresses.

    Returned pages also migrated the other way. Bounced pages did so, and migrated more than once in the
    row's direction. ``kinds`` has the kind of copy of each row; only host and device are opposite ways.
    """
    counts = {name: np.full(len(kinds), MISSING) for name in ("pages", "returned_pages", "bounced_pages")}
    for pages in pages_by_process(moved, rows):
        for row, times in pages.by_row.items():
            counts["pages"][row] = pages.length[times > 0].sum()
            kind = int(kinds[row])
            if kind in _OTHER_WAY:
                back = (times > 0) & (pages.moves[_OTHER_WAY[kind]] > 0)
                counts["returned_pages"][row] = pages.length[back].sum()
                counts["bounced_pages"][row] = pages.length[back & (pages.moves[kind] > 1)].sum()
    return counts
