"""Copies, memsets and page migrations: sizes, memory kinds, bandwidths.

Calls that are asynchronous only by name are found here too. A page of unified memory is 4 KiB: addresses and
sizes of migrations are multiples of it, and one migration moves up to 2 MiB. Addresses belong to one process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.api_call_kinds import calls_named
from nsyswrap.analysis.arrays.groups import Groups, group_keys
from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.gpu_operations import COPY, GRAPH, KERNEL, KINDS, SET, gpu_operations_of
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import ON_DEVICE, PAGEABLE, SPANS, UM_TO_DEVICE, UM_TO_HOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture

    Figures = dict[str, NDArray[Any]]  # by column, an entry per row


MEMSET_KIND = -1  # beside the numbers of the kinds of copies
_BETWEEN_HOST_AND_DEVICE = (1, 2, 3, 4)  # kinds of copies, those of arrays included
_INSIDE_DEVICE = (5, 6, 7, 8)
_SPAN = {"size_bytes": "bytes", "start_ns": "start_ns", "end_ns": "end_ns"}
_SOURCES = {
    COPY: {
        **_SPAN,
        "kind": "copy_kind",
        "src_kind": "src_kind",
        "dst_kind": "dst_kind",
        "copies": "copy_count",
    },
    SET: {**_SPAN, "dst_kind": "mem_kind"},
}

TIMED, NO_TIME, STAGED, TOO_FAST = range(4)  # what the duration of a transfer is worth

_ASYNCHRONOUS = re.compile("cu(da)?Memcpy.*Async", re.IGNORECASE)

PAGE_BYTES = 4096
_OTHER_WAY = {UM_TO_DEVICE: UM_TO_HOST, UM_TO_HOST: UM_TO_DEVICE}


class Memory(NamedTuple):
    """Of the GPUs' memory: bandwidth in bytes/s, size of the L2 cache in bytes; NaN: not known."""

    bytes_per_s: float
    cache_bytes: float


@dataclass(frozen=True)
class Transfers:
    """One entry per copy and memset, in order of start.

    ``kind`` is that of the copy, or MEMSET_KIND; ``src_kind`` and ``dst_kind`` are kinds of memory, MISSING
    where that is not said, as of migrations; ``copies`` is how many copies one entry stands for, or MISSING.
    ``work`` has times as the selection cuts them; ``start_ns`` and ``end_ns`` are whole, as the bytes are.
    """

    operations: GpuOperations
    kind: NDArray[Any]
    src_kind: NDArray[Any]
    dst_kind: NDArray[Any]
    size_bytes: NDArray[Any]
    copies: NDArray[Any]
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]

    def __len__(self) -> int:
        """Return the number of transfers."""
        return len(self.kind)

    def of(self, rows: NDArray[Any]) -> Transfers:
        """Return these transfers, by position or mark."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        return Transfers(self.operations.of(rows), **{name: values[rows] for name, values in columns.items()})

    @property
    def duration_ns(self) -> NDArray[Any]:
        """How long each took, in ns, whatever is selected of it."""
        return self.end_ns - self.start_ns  # type: ignore[no-any-return]

    @property
    def memory_unsaid(self) -> NDArray[Any]:
        """Marks explicit copies and memsets of which the export does not say what memory they were on."""
        source = (self.src_kind == MISSING) & (self.kind != MEMSET_KIND)
        unsaid: NDArray[Any] = (source | (self.dst_kind == MISSING)) & ~self.operations.migration
        return unsaid


def transfers(capture: Capture) -> Transfers:
    """Return the selected copies, migrations of unified memory and memsets."""
    every = gpu_operations_of(capture)
    mine = every.of(np.isin(every.kind, (KINDS.index(COPY), KINDS.index(SET))))
    found = {field: np.full(len(mine), MISSING) for field in _SOURCES[COPY]}
    for kind, sources in _SOURCES.items():
        if capture.has(kind):
            rows = np.flatnonzero(mine.kind == KINDS.index(kind))
            columns = capture.whole.columns(kind, *sources.values())
            for field, source in sources.items():
                found[field][rows] = columns[source][mine.row[rows]]
    found["kind"][mine.kind == KINDS.index(SET)] = MEMSET_KIND
    for end in ("src_kind", "dst_kind"):
        found[end][mine.migration] = MISSING
    return Transfers(mine, **found)


def gpu_memory(capture: Capture) -> Memory:
    """Return what all GPUs of the machine have in common; NaN where they differ.

    Which GPU a device id stands for is not certain: CUDA_VISIBLE_DEVICES numbers them anew.
    """
    if not capture.whole.has("gpu"):
        return Memory(np.nan, np.nan)
    said = capture.whole.columns("gpu", "memory_bytes_per_s", "l2_bytes").values()
    return Memory(*(float(part[0]) if part.min() == part.max() > 0 else np.nan for part in said))


def inside_gpu(found: Transfers) -> NDArray[Any]:
    """Mark transfers that nothing but the memory of one GPU takes part in."""
    inside = np.isin(found.kind, _INSIDE_DEVICE)
    for kinds in (found.src_kind, found.dst_kind):
        inside &= np.isin(kinds, (*ON_DEVICE, MISSING))
    inside |= (found.kind == MEMSET_KIND) & np.isin(found.dst_kind, ON_DEVICE)
    return inside


def links(found: Transfers, memory: Memory) -> NDArray[Any]:
    """Return the bandwidth of the link that each transfer went over, in bytes/s; NaN: exports do not say it.

    They say that of a GPU's memory alone. A copy inside a GPU reads each byte and writes it: it can reach
    half.
    """
    return np.where(inside_gpu(found), memory.bytes_per_s / _accesses(found), np.nan)


def timed(found: Transfers, memory: Memory) -> NDArray[Any]:
    """Return for each transfer TIMED, or why its duration is not the time it took.

    NO_TIME: it lasted 0 ns. STAGED: host to device or back, with both ends in devices: a copy between two
    GPUs that the driver takes through the host; the row has all of its bytes, but the time of one piece.
    TOO_FAST: more bytes than the GPU's memory can move in that time, even if its L2 cache took all it holds.
    """
    staged = np.isin(found.kind, _BETWEEN_HOST_AND_DEVICE)
    staged &= np.isin(found.src_kind, ON_DEVICE) & np.isin(found.dst_kind, ON_DEVICE)
    through_memory = (found.size_bytes - memory.cache_bytes) * _accesses(found)
    too_fast = through_memory * 1e9 > memory.bytes_per_s * found.duration_ns
    return np.select([found.duration_ns <= 0, staged, too_fast], [NO_TIME, STAGED, TOO_FAST], TIMED)


def _accesses(found: Transfers) -> NDArray[Any]:
    """Return how often a GPU's memory is accessed for each byte."""
    return np.where(np.isin(found.kind, _INSIDE_DEVICE), 2, 1)


def per_s(size: NDArray[Any], time_ns: NDArray[Any]) -> NDArray[Any]:
    """Return bytes/s; NaN where no time passed."""
    return np.where(time_ns > 0, size * 1e9 / np.maximum(time_ns, 1), np.nan)


def bandwidths(capture: Capture, found: Transfers, codes: NDArray[Any], rows: int) -> Figures:
    """Return what the transfers of each row reached whose time is their own, and what their link gives.

    ``codes`` has the row of each. All of one row go over the same kind of link.
    """
    memory = gpu_memory(capture)
    good = timed(found, memory) == TIMED
    groups, moved, took = Groups(codes[good], rows), found.size_bytes[good], found.duration_ns[good]
    size = groups.of(moved).total
    link = np.full(rows, np.nan)
    link[codes] = links(found, memory)
    reached = per_s(size, groups.of(took).total)
    return {
        "bandwidth_bytes_per_s": reached,
        "med_bandwidth_bytes_per_s": groups.quantile(per_s(moved, took), 0.5),
        "aggregate_bytes_per_s": per_s(size, _busy(found.of(good), codes[good], rows)),
        "link_bytes_per_s": link,
        "link_percent": reached * 100.0 / link,
        "left_out": np.bincount(codes[~good], minlength=rows),
    }


def _busy(found: Transfers, codes: NDArray[Any], rows: int) -> NDArray[Any]:
    """Return how long at least one transfer of a row went on, in ns, summed over devices."""
    busy = np.zeros(rows, np.int64)
    pairs, (row, _) = group_keys(codes, found.operations.device_id)
    for pair, code in enumerate(row.tolist()):
        mine = np.flatnonzero(pairs == pair)
        busy[code] += union(found.start_ns[mine], found.end_ns[mine]).length
    return busy


def waiting_calls(capture: Capture, found: Transfers, codes: NDArray[Any], rows: int) -> Figures:
    """Return how many asynchronous calls copied pageable memory, and their time.

    To the device such a call fills a buffer before it returns, to the host it waits for the copy. Missing
    where the export does not say what memory it was, or has no calls.
    """
    number, took = np.full(rows, MISSING), np.full(rows, MISSING)
    if capture.whole.has("api"):
        pageable = (found.src_kind == PAGEABLE) | (found.dst_kind == PAGEABLE)
        pageable &= np.isin(found.operations.call, calls_named(capture.whole, _ASYNCHRONOUS))
        _, (row, call) = group_keys(codes[pageable], found.operations.call[pageable])
        api = capture.whole.columns("api", *SPANS)
        calls = Groups(row, rows).of(api["end_ns"][call] - api["start_ns"][call])
        said = np.bincount(codes[~found.memory_unsaid], minlength=rows) > 0
        number, took = np.where(said, calls.count, MISSING), np.where(said, calls.total, MISSING)
    return {"async_pageable": number, "async_pageable_ns": took}


def compute_overlap(
    capture: Capture,
    process: NDArray[Any],
    device: NDArray[Any],
    start_ns: NDArray[Any],
    end_ns: NDArray[Any],
) -> NDArray[Any]:
    """Return how long kernels or graphs ran in each interval for its process on its device, in ns.

    Where an export lacks the process of either, the device alone has to do.
    """
    every = gpu_operations_of(capture)
    every = every.of(np.isin(every.kind, (KINDS.index(KERNEL), KINDS.index(GRAPH))))
    found = np.zeros_like(start_ns)
    for global_pid, device_id, computing in every.by_device():
        same = (process == global_pid) | (process == MISSING) | (global_pid == MISSING)
        rows = np.flatnonzero(same & (device == device_id))
        cover = union(every.start_ns[computing], every.end_ns[computing])
        found[rows] += cover.within(start_ns[rows], end_ns[rows])
    return np.minimum(found, end_ns - start_ns)  # type: ignore[no-any-return]


class Pages(NamedTuple):
    """Runs of neighbouring pages of one process that migrated together every time, one entry a run.

    ``length`` is in pages. ``moves`` says how often they migrated by kind of copy, ``by_row`` by row of a
    table.
    """

    length: NDArray[Any]
    moves: dict[int, NDArray[Any]]
    by_row: dict[int, NDArray[Any]]

    def back_and_forth(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return length and migrations of the runs that went both ways, and one of them more than once."""
        there, back = self.moves[UM_TO_DEVICE], self.moves[UM_TO_HOST]
        chosen = (there > 0) & (back > 0) & ((there > 1) | (back > 1))
        return self.length[chosen], (there + back)[chosen]


class _Ranges(NamedTuple):
    """Of each migration the edges, by position, that its first page and the one behind its last begin at."""

    edges: NDArray[Any]
    first: NDArray[Any]
    end: NDArray[Any]

    def times(self, chosen: NDArray[Any]) -> NDArray[Any]:
        """Return how many of the chosen migrations moved the pages from each edge to the next."""
        begun, over = (np.bincount(part[chosen], minlength=len(self.edges)) for part in self[1:])
        return np.cumsum(begun - over)[:-1]


def _ranges(address: NDArray[Any], size_bytes: NDArray[Any]) -> _Ranges:
    ends = np.concatenate((address // PAGE_BYTES, -(-(address + size_bytes) // PAGE_BYTES)))
    edges, positions = np.unique(ends, return_inverse=True)
    return _Ranges(edges, positions[: len(address)], positions[len(address) :])


def pages_by_process(moved: Mapping[str, NDArray[Any]], rows: NDArray[Any]) -> Iterator[Pages]:
    """Yield the pages of each process.

    ``moved`` has ``global_pid``, ``copy_kind``, ``address`` and ``bytes`` of each migration, ``rows`` the row
    it belongs to. Those without an address are left out.
    """
    known = np.flatnonzero(moved["address"] != MISSING)
    for process in np.unique(moved["global_pid"][known]).tolist():
        mine = known[moved["global_pid"][known] == process]
        ranges = _ranges(moved["address"][mine], moved["bytes"][mine])
        kinds, groups = moved["copy_kind"][mine], rows[mine]
        yield Pages(
            np.diff(ranges.edges),
            {kind: ranges.times(kinds == kind) for kind in _OTHER_WAY},
            {row: ranges.times(groups == row) for row in np.unique(groups).tolist()},
        )


def page_counts(
    moved: Mapping[str, NDArray[Any]], rows: NDArray[Any], kinds: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Return, for each row, how many pages migrated, came back, and did so again; missing without address.

    ``kinds`` has the kind of copy of each row. Between devices there is no way back.
    """
    found = {name: np.full(len(kinds), MISSING) for name in ("pages", "returned_pages", "bounced_pages")}
    for pages in pages_by_process(moved, rows):
        for row, times in pages.by_row.items():
            found["pages"][row] = pages.length[times > 0].sum()
            kind = int(kinds[row])
            if kind in _OTHER_WAY:
                back = (times > 0) & (pages.moves[_OTHER_WAY[kind]] > 0)
                found["returned_pages"][row] = pages.length[back].sum()
                found["bounced_pages"][row] = pages.length[back & (pages.moves[kind] > 1)].sum()
    return found
