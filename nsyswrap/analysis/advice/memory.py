"""Find what memory costs: pageable, tiny or exposed copies, and page migrations of unified memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.advice import Advice
from nsyswrap.analysis.arrays.intervals import intersection, union
from nsyswrap.analysis.gpu_operations import COPY, GRAPH, KERNEL, KINDS
from nsyswrap.base.units import Unit, duration, human
from nsyswrap.capture.schema import PAGEABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.advice import AdviceContext
    from nsyswrap.analysis.gpu_operations import GpuOperations


_HIDDEN_PERCENT = 10.0
_TINY_BYTES, _MANY = 64_000, 100  # what nsys' rule on synchronous copies lets pass as well

_PAGE_FAULT = 2  # migrationCause
_COMPUTE = (KINDS.index(KERNEL), KINDS.index(GRAPH))


def pageable(seen: AdviceContext) -> Iterator[Advice]:
    """Copies between the GPU and memory that the system may move: staged through a buffer, and blocking."""
    copies = _copies(seen)
    if not len(copies):
        return
    known = seen.capture.whole.columns(COPY, "src_kind", "dst_kind", "bytes")
    kinds = (known["src_kind"][copies.row], known["dst_kind"][copies.row])
    size = known["bytes"][copies.row]
    rows = np.flatnonzero(((kinds[0] == PAGEABLE) | (kinds[1] == PAGEABLE)) & (size > _TINY_BYTES))
    took = int(_durations(copies, rows).sum())
    if not seen.worth(took):
        return
    moved = human(int(size[rows].sum()), Unit.BYTES)
    yield Advice(
        "pageable_copies",
        "copies from or to pageable memory: slower than from pinned, and the host waits for them",
        took,
        f"copies: {len(rows):,}, of {moved} in {duration(took)}",
        "pin the memory: cudaMallocHost; tensor.pin_memory() and .to(..., non_blocking=True); "
        "DataLoader(pin_memory=True)",
        "the data is copied once only: pinning it costs more than that copy",
        "memcpy_bandwidth",
    )


def not_hidden(seen: AdviceContext) -> Iterator[Advice]:
    """Copies and kernels, both worth a word, that hardly ever run at the same time."""
    copying = computing = both = at_stake = 0
    for _, _, rows in seen.operations.by_device():
        mine = seen.operations.of(rows)
        copy = _cover(mine, (mine.kind == KINDS.index(COPY)) & ~mine.migration)
        compute = _cover(mine, np.isin(mine.kind, (KINDS.index(KERNEL), KINDS.index(GRAPH))))
        copying, computing = copying + copy.length, computing + compute.length
        together = intersection(copy, compute).length
        both, at_stake = both + together, at_stake + min(copy.length, compute.length) - together
    if not seen.worth(at_stake) or 100.0 * both / copying >= _HIDDEN_PERCENT:
        return
    yield Advice(
        "copies_not_hidden",
        "copies and kernels take turns: neither hides the other",
        at_stake,
        f"copies take {duration(copying)}, kernels {duration(computing)}, and {duration(both)} of it at the "
        "same time",
        "cut the work into parts and use several streams, with pinned memory and asynchronous copies",
        "every kernel needs all that is copied before it, and nothing else is there to compute meanwhile",
        "gpu_time",
    )


def tiny(seen: AdviceContext) -> Iterator[Advice]:
    """Many small copies whose calls take longer than they do."""
    copies = _copies(seen)
    if not len(copies):
        return
    size = seen.capture.whole.columns(COPY, "bytes")["bytes"][copies.row]
    rows = np.flatnonzero((size <= _TINY_BYTES) & (copies.call >= 0))
    if len(rows) < _MANY:
        return
    api = seen.capture.whole.columns("api", "start_ns", "end_ns")
    calls = np.unique(copies.call[rows])
    took = int((api["end_ns"][calls] - api["start_ns"][calls]).sum())
    if not seen.worth(took) or took < _durations(copies, rows).sum():
        return
    yield Advice(
        "tiny_copies",
        "many small copies: their calls take longer than the copies",
        took,
        f"copies: {len(rows):,}, of up to {human(_TINY_BYTES, Unit.BYTES)}, median "
        f"{human(float(np.median(size[rows])), Unit.BYTES)}, {duration(took)} in their calls",
        "put the data together and copy it once, or keep it on the GPU",
        "each copy carries a result that the host needs at once",
        "memcpy_bandwidth",
    )


def _copies(seen: AdviceContext) -> GpuOperations:
    return seen.operations.of((seen.operations.kind == KINDS.index(COPY)) & ~seen.operations.migration)


def _durations(operations: GpuOperations, rows: NDArray[Any]) -> NDArray[Any]:
    return operations.end_ns[rows] - operations.start_ns[rows]  # type: ignore[no-any-return]


def _cover(operations: GpuOperations, rows: NDArray[Any]) -> Any:  # noqa: ANN401
    return union(operations.start_ns[rows], operations.end_ns[rows])


def faulting_kernels(seen: AdviceContext) -> Iterator[Advice]:
    """Kernels during which pages migrate because the kernel touched them."""
    work = seen.operations
    kernels = work.of(work.kind == KINDS.index(KERNEL))
    migrations = work.of(work.migration)
    if not (len(kernels) and len(migrations)):
        return
    known = seen.capture.whole.columns(COPY, "migration_cause", "bytes")
    rows = np.flatnonzero(known["migration_cause"][migrations.row] == _PAGE_FAULT)
    faulted = union(migrations.start_ns[rows], migrations.end_ns[rows])
    running = union(kernels.start_ns, kernels.end_ns)
    waited = intersection(running, faulted).length
    if not seen.worth(waited):
        return
    size = human(int(known["bytes"][migrations.row][rows].sum()), Unit.BYTES)
    yield Advice(
        "faulting_kernels",
        "kernels run while the pages they touch migrate: their time includes the wait for them",
        waited,
        f"{len(rows):,} migrations of {size} after page faults; in {duration(waited)} of the "
        f"kernels' {duration(running.length)} some were under way",
        "prefetch what the kernel needs (cudaMemPrefetchAsync), or use cudaMalloc and explicit copies",
        "the kernel touches few of the pages, and which ones is not known before",
        "um_migrations",
    )


def waiting_for_pages(seen: AdviceContext) -> Iterator[Advice]:
    """Before a kernel, nothing runs on the GPU until pages have been moved: mostly the host touches them."""
    gaps, starts = seen.gaps, seen.operations.start_ns[np.isin(seen.operations.kind, _COMPUTE)]
    rows = np.flatnonzero((gaps.parts["migration"] > 0) & (gaps.end_ns <= starts.max(initial=0)))
    if not len(rows):
        return
    causes = seen.capture.whole.columns(COPY, "migration_cause")["migration_cause"]
    rows = rows[causes[gaps.operations.row[gaps.after[rows]]] == _PAGE_FAULT]
    lost = int(gaps.parts["migration"][rows].sum())
    if not seen.worth(lost):
        return
    yield Advice(
        "waiting_for_pages",
        "the GPU is idle until pages of unified memory have moved",
        lost,
        f"idle for {duration(lost)} in {len(rows):,} gaps that end with a migration after a page "
        "fault, and before a kernel",
        "move what is needed at once: cudaMemPrefetchAsync, to the CPU too; keep both off the same pages",
        "the host computes on these pages meanwhile: then its own work takes the time",
        "um_migrations",
    )


CHECKS = (
    pageable,
    not_hidden,
    tiny,
    faulting_kernels,
    waiting_for_pages,
)
