"""Unified memory: kernels that wait for their pages, and pages that keep the GPU waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.advice import Finding
from nsyswrap.analysis.arrays.intervals import intersection, union
from nsyswrap.analysis.gpu_operations import COPY, GRAPH, KERNEL, KINDS
from nsyswrap.base.units import Unit, duration, human

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.analysis.advice import Situation

_PAGE_FAULT = 2  # migrationCause
_COMPUTE = (KINDS.index(KERNEL), KINDS.index(GRAPH))


def faulting_kernels(seen: Situation) -> Iterator[Finding]:
    """Kernels during which pages migrate because the kernel touched them."""
    work = seen.work
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
    yield Finding(
        "faulting_kernels",
        "kernels run while the pages they touch migrate: their time includes the wait for them",
        waited,
        f"{len(rows):,} migrations of {size} after page faults; in {duration(waited)} of the "
        f"kernels' {duration(running.length)} some were under way",
        "prefetch what the kernel needs (cudaMemPrefetchAsync), or use cudaMalloc and explicit copies",
        "the kernel touches few of the pages, and which ones is not known before",
        "um_migrations",
    )


def waiting_for_pages(seen: Situation) -> Iterator[Finding]:
    """Before a kernel, nothing runs on the GPU until pages have been moved: mostly the host touches them."""
    gaps, starts = seen.idle, seen.work.start_ns[np.isin(seen.work.kind, _COMPUTE)]
    rows = np.flatnonzero((gaps.parts["migration"] > 0) & (gaps.end_ns <= starts.max(initial=0)))
    if not len(rows):
        return
    causes = seen.capture.whole.columns(COPY, "migration_cause")["migration_cause"]
    rows = rows[causes[gaps.operations.row[gaps.after[rows]]] == _PAGE_FAULT]
    lost = int(gaps.parts["migration"][rows].sum())
    if not seen.worth(lost):
        return
    yield Finding(
        "waiting_for_pages",
        "the GPU is idle until pages of unified memory have moved",
        lost,
        f"idle for {duration(lost)} in {len(rows):,} gaps that end with a migration after a page "
        "fault, and before a kernel",
        "move what is needed at once: cudaMemPrefetchAsync, to the CPU too; keep both off the same pages",
        "the host computes on these pages meanwhile: then its own work takes the time",
        "um_migrations",
    )


LOOKS = (faulting_kernels, waiting_for_pages)
