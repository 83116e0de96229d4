"""Copies and memsets one by one: what they moved between which memory, and whether their time is theirs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.gpu_operations import COPY, KINDS, SET, work
from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import ON_DEVICE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import Work
    from nsyswrap.capture.capture import Capture

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

    work: Work
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
        return Transfers(self.work.of(rows), **{name: values[rows] for name, values in columns.items()})

    @property
    def duration_ns(self) -> NDArray[Any]:
        """How long each took, in ns, whatever is selected of it."""
        return self.end_ns - self.start_ns  # type: ignore[no-any-return]

    @property
    def memory_unsaid(self) -> NDArray[Any]:
        """Marks explicit copies and memsets of which the export does not say what memory they were on."""
        source = (self.src_kind == MISSING) & (self.kind != MEMSET_KIND)
        unsaid: NDArray[Any] = (source | (self.dst_kind == MISSING)) & ~self.work.migration
        return unsaid


def transfers(capture: Capture) -> Transfers:
    """Return the selected copies, migrations of unified memory and memsets."""
    every = work(capture)
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
