"""Find the idle time that no other finding explains, so that an idle GPU never goes without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.advice.context import Advice
from nsyswrap.analysis.arrays.intervals import NOTHING, difference, joined
from nsyswrap.analysis.gpu_gaps import CAUSES
from nsyswrap.analysis.gpu_operations import MEMCPY
from nsyswrap.base.units import duration
from nsyswrap.capture.schema import PAGE_FAULT, UM_TO_HOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.advice.context import AdviceContext
    from nsyswrap.analysis.arrays.intervals import Cover

_MOSTLY_PERCENT = 20.0  # of the time: a GPU that is idle for longer gets a finding in any case
_TO_HOST = "pages_to_host"
_CAUSE_OF = {_TO_HOST: "migration"}  # other findings are named after their cause
# By finding: headline, remedy, what to do, line of code, when it is wrong.
_TEXTS = {
    "profiler": (
        "Profiler overhead: nsys itself leaves the GPU idle",
        "Recording less",
        "record fewer kinds of events, or only part of the run",
        "nsyswrap profile --trace cuda --capture-range cudaProfilerApi -- ...",
        "only the run time without nsys matters, which has no profiler overhead",
    ),
    "queued": (
        "Gaps between queued operations leave the GPU idle",
        "Fewer, longer kernels",
        "fuse short kernels, launch them as a CUDA graph, or remove dependencies between streams",
        "step = torch.compile(step)",
        "the operations wait for another device or process",
    ),
    "load": (
        "Loading modules leaves the GPU idle",
        "Loading once",
        "load modules and create contexts before the loop; -r gpu_idle lists the gaps",
        "step()  # once before the loop: the first call of a kernel loads it",
        "the loading happens once in a long run",
    ),
    "allocate": (
        "Allocating or freeing memory leaves the GPU idle",
        "Allocating once",
        "allocate before the loop or from a pool: cudaMallocAsync; -r gpu_idle lists the gaps",
        "buffer = torch.empty(shape, device='cuda')  # before the loop",
        "the allocation happens once in a long run",
    ),
    "synchronise": (
        "Synchronizing calls leave the GPU idle",
        "Synchronizing less often",
        "move these calls out of the loop; -r gpu_idle lists the gaps",
        "loss_sum += loss.detach()  # and .item() once after the loop",
        "the host needs each result before it can continue",
    ),
    "launch": (
        "Launches leave the GPU idle",
        "CUDA graphs or fusion",
        (
            "reduce the number of launches: CUDA graphs, torch.compile, fused kernels; -r gpu_idle lists "
            "the gaps"
        ),
        "step = torch.compile(step, mode='reduce-overhead')",
        "nsys causes the delay, as it slows every launch: compare run times without nsys",
    ),
    "copy": (
        "Copy and memset calls leave the GPU idle",
        "Fewer copy calls",
        "copy more per call, asynchronously and from pinned memory; -r gpu_idle lists the gaps",
        "batch = batch.pin_memory().to('cuda', non_blocking=True)",
        "each copied result is needed immediately",
    ),
    "host": (
        "Short host code between GPU operations",
        "Less host code between launches",
        "move host work out of the loop or to a pool of threads, or queue more GPU work ahead",
        "future = pool.submit(prepare); step(batch); batch = future.result()",
        "the program had no work for the GPU in that time",
    ),
    "call": (
        "Other CUDA calls leave the GPU idle",
        "Fewer CUDA calls",
        "move these calls out of the loop; -r cuda_api_sum lists them",
        "nsyswrap report CAPTURE -r cuda_api_sum",
        "the calls belong to a phase that runs once",
    ),
    "migration": (
        "Unified memory: the GPU is idle until pages have migrated",
        "Prefetching pages earlier",
        "start prefetches earlier, on a separate stream, so that kernels run in the meantime",
        "cudaMemPrefetchAsync(following, bytes, device, copies);",
        "the host computes on these pages in that time",
    ),
    "pages_to_host": (
        "Unified memory: the GPU is idle while the host fetches pages",
        "Prefetching to the host",
        "move results to the host in one piece: prefetch or copy them; -r gpu_idle lists the gaps",
        "cudaMemPrefetchAsync(results, bytes, cudaCpuDeviceId, stream);",
        "the host computes on these pages in that time",
    ),
    "unknown": (
        "Unexplained GPU idle time: launches are not recorded",
        "Recording the launches",
        "record from the start, and trace CUDA in all processes",
        "nsyswrap profile --trace cuda,nvtx,osrt -- ...",
        "events were removed from the capture",
    ),
}
# Instead of those on "queued", in a part without kernels.
_QUEUED_COPIES = (
    "Gaps between queued copies and memsets leave the GPU idle",
    "Fewer, larger operations",
    "combine small copies, or queue independent copies in different streams",
    "cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream_2);",
    "the operations wait for another device or process",
)


def idle_time(context: AdviceContext, known: Sequence[Advice]) -> list[Advice]:
    """Return a finding for each cause with much idle time that the known findings leave.

    If the GPU is mostly idle and there would be none at all, the largest cause counts.
    """
    explained = joined(*(piece.cover for piece in known)) if known else NOTHING
    to_host = _end_with_pages_to_host(context)

    def left(name: str) -> Cover:
        gaps = to_host if name == _TO_HOST else ~to_host
        return difference(context.idle(gaps, (_CAUSE_OF.get(name, name),)), explained)

    spent = context.gaps.spent_ns  # at least what is left: most causes are not worth a closer look
    covers = {name: left(name) for name in _TEXTS if context.worth(spent[_CAUSE_OF.get(name, name)])}
    findings = [_finding(context, *item) for item in covers.items() if context.worth(item[1].length)]
    if findings or known:
        return findings
    covers = {name: left(name) for name in _TEXTS}
    if 0 < _MOSTLY_PERCENT * context.window_ns <= 100.0 * sum(cover.length for cover in covers.values()):
        findings = [_finding(context, *max(covers.items(), key=lambda item: item[1].length))]
    return findings


def _end_with_pages_to_host(context: AdviceContext) -> NDArray[np.bool_]:
    """Return which gaps end with a page that the host touched: an eviction or a prefetch is another cause."""
    gaps = context.gaps
    to_host = np.zeros(len(gaps), dtype=bool)
    rows = np.flatnonzero(gaps.parts["migration"] > 0)
    if len(rows):
        moved = context.capture.whole.columns(MEMCPY, "copy_kind", "migration_cause")
        fetched = (moved["copy_kind"] == UM_TO_HOST) & (moved["migration_cause"] == PAGE_FAULT)
        to_host[rows] = fetched[gaps.operations.row[gaps.after[rows]]]
    return to_host


def _finding(context: AdviceContext, name: str, cover: Cover) -> Advice:
    computes = context.operations.computes.any()
    texts = _QUEUED_COPIES if name == "queued" and not computes else _TEXTS[name]
    headline, remedy, do, example, unless = texts
    return Advice(
        f"idle_{name}",
        f"{headline} ({duration(cover.length)})",
        cover.length,
        f"idle {duration(cover.length)}: {CAUSES[_CAUSE_OF.get(name, name)]}",
        remedy,
        do,
        example,
        unless,
        "gpu_idle",
        cover=cover,
    )
