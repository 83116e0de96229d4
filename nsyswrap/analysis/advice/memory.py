"""Find what memory costs: pageable, tiny or exposed copies, and migrations of unified memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.advice.context import Advice
from nsyswrap.analysis.arrays.intervals import intersection, union
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, KINDS, MEMCPY, selected_ns
from nsyswrap.analysis.transfers import bytes_within
from nsyswrap.base.units import Unit, duration, human
from nsyswrap.capture.schema import PAGEABLE, SPANS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.advice.context import AdviceContext
    from nsyswrap.analysis.arrays.intervals import Cover
    from nsyswrap.analysis.gpu_operations import GpuOperations


_HIDDEN_PERCENT = 10.0
_TINY_BYTES, _MANY = 64_000, 100  # bytes as in nsys' expert rule on synchronous copies
_PAGE_FAULT = 2  # migrationCause
_COMPUTE = (KINDS.index(KERNEL), KINDS.index(GRAPH))


def pageable(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if copies of pageable memory take much time: they are staged and block the host."""
    copies = _copies(context)
    if not len(copies):
        return
    fields = context.capture.whole.columns(MEMCPY, "src_kind", "dst_kind", "bytes").values()
    source, target, size = (values[copies.row] for values in fields)
    rows = np.flatnonzero(((source == PAGEABLE) | (target == PAGEABLE)) & (size > _TINY_BYTES))
    took = _took_ns(context, copies.of(rows))
    if not context.worth(took):
        return
    moved = _moved(context, copies.of(rows))
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


def not_hidden(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if copies and kernels take much time and hardly overlap."""
    copying = computing = both = potential_ns = 0
    for _, _, rows in context.pieces.by_device():
        mine = context.pieces.of(rows)
        copy = _cover(mine, (mine.kind == KINDS.index(MEMCPY)) & ~mine.migration)
        compute = _cover(mine, np.isin(mine.kind, _COMPUTE))
        copying, computing = copying + copy.length, computing + compute.length
        together = intersection(copy, compute).length
        both += together
        potential_ns += min(copy.length, compute.length) - together
    if not context.worth(potential_ns) or 100.0 * both / copying >= _HIDDEN_PERCENT:
        return
    yield Advice(
        "copies_not_hidden",
        "copies and kernels take turns: neither hides the other",
        potential_ns,
        f"copies take {duration(copying)}, kernels {duration(computing)}, and {duration(both)} of it at the "
        "same time",
        "cut the work into parts and use several streams, with pinned memory and asynchronous copies",
        "every kernel needs all that is copied before it, and nothing else is there to compute meanwhile",
        "gpu_time",
    )


def tiny(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if many small copies take longer in their API calls than on the GPU."""
    copies = _copies(context)
    if not len(copies):
        return
    size = context.capture.whole.columns(MEMCPY, "bytes")["bytes"][copies.row]
    rows = np.flatnonzero((size <= _TINY_BYTES) & (copies.call >= 0))
    if len(rows) < _MANY:
        return
    api = context.capture.whole.columns("api", "start_ns", "end_ns")
    calls = np.unique(copies.call[rows])
    took = int((api["end_ns"][calls] - api["start_ns"][calls]).sum())
    if not context.worth(took) or took < _took_ns(context, copies.of(rows)):
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


def _copies(context: AdviceContext) -> GpuOperations:
    return context.operations.of(
        (context.operations.kind == KINDS.index(MEMCPY)) & ~context.operations.migration
    )


def _took_ns(context: AdviceContext, copies: GpuOperations) -> int:
    return int(selected_ns(context.capture, copies).sum())


def _moved(context: AdviceContext, copies: GpuOperations) -> str:
    """Return the bytes that copies moved in the selected time, with their unit."""
    columns = context.capture.whole.columns(MEMCPY, "bytes", *SPANS).values()
    size, start, end = (values[copies.row] for values in columns)
    moved = bytes_within(size, end - start, selected_ns(context.capture, copies))
    return human(int(moved.sum()), Unit.BYTES)


def _cover(operations: GpuOperations, rows: NDArray[Any]) -> Cover:
    return union(operations.start_ns[rows], operations.end_ns[rows])


def faulting_kernels(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if pages of unified memory migrate after page faults while kernels run."""
    pieces = context.pieces
    kernels = pieces.of(pieces.kind == KINDS.index(KERNEL))
    migrations = context.operations.of(context.operations.migration)
    if not (len(kernels) and len(migrations)):
        return
    causes = context.capture.whole.columns(MEMCPY, "migration_cause")["migration_cause"]
    migrations = migrations.of(causes[migrations.row] == _PAGE_FAULT)
    faulted = union(migrations.start_ns, migrations.end_ns)
    running = union(kernels.start_ns, kernels.end_ns)
    waited = intersection(running, faulted).length
    if not context.worth(waited):
        return
    size = _moved(context, migrations)
    yield Advice(
        "faulting_kernels",
        "kernels run while the pages they touch migrate: their time includes the wait for them",
        waited,
        f"{len(migrations):,} migrations of {size} after page faults; in {duration(waited)} of the "
        f"kernels' {duration(running.length)} some were under way",
        "prefetch what the kernel needs (cudaMemPrefetchAsync), or use cudaMalloc and explicit copies",
        "the kernel touches few of the pages, and which ones is not known before",
        "um_migrations",
    )


def waiting_for_pages(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if the GPU is idle until pages of unified memory have migrated, before a kernel."""
    gaps, starts = context.gaps, context.operations.start_ns[np.isin(context.operations.kind, _COMPUTE)]
    rows = np.flatnonzero((gaps.parts["migration"] > 0) & (gaps.end_ns <= starts.max(initial=0)))
    if not len(rows):
        return
    causes = context.capture.whole.columns(MEMCPY, "migration_cause")["migration_cause"]
    rows = rows[causes[gaps.operations.row[gaps.after[rows]]] == _PAGE_FAULT]
    lost = int(gaps.parts["migration"][rows].sum())
    if not context.worth(lost):
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
