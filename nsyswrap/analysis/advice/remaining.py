"""Find the idle time that no other finding explains, so that an idle GPU never goes without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.advice.context import Advice
from nsyswrap.analysis.arrays.intervals import difference, joined
from nsyswrap.analysis.gpu_gaps import CAUSES
from nsyswrap.base.units import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.analysis.advice.context import AdviceContext
    from nsyswrap.analysis.arrays.intervals import Cover

_MOSTLY_PERCENT = 20.0  # of the time: a GPU that is idle for longer gets a finding in any case
# By cause: headline, remedy, what to do, line of code, when it is wrong.
_TEXTS = {
    "profiler": (
        "Profiler overhead: nsys itself leaves the GPU idle",
        "Recording less",
        "record fewer kinds of events, or only part of the run",
        "nsyswrap profile --trace cuda --capture-range cudaProfilerApi -- ...",
        "only the run time without nsys matters, which has no profiler overhead",
    ),
    "queued": (
        "Short kernels: the GPU is idle between queued operations",
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
        "step = torch.compile(step, mode='reduce-overhead')  # or torch.cuda.CUDAGraph",
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
        "move host work out of the loop, or queue more GPU work ahead",
        "with concurrent.futures.ThreadPoolExecutor() as pool: following = pool.submit(prepare)",
        "the program had no work for the GPU in that time",
    ),
    "call": (
        "Other CUDA calls leave the GPU idle",
        "Fewer CUDA calls",
        "move these calls out of the loop; -r cuda_api_sum lists them",
        "nsyswrap report -r cuda_api_sum",
        "the calls belong to a phase that runs once",
    ),
    "migration": (
        "Unified memory: the GPU is idle until pages have migrated",
        "Prefetching pages earlier",
        "start prefetches earlier, on a separate stream, so that kernels run in the meantime",
        "cudaMemPrefetchAsync(following, bytes, device, copies);",
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


def idle_time(context: AdviceContext, known: Sequence[Advice]) -> list[Advice]:
    """Return a finding for each cause with much idle time that the known findings leave.

    If the GPU is mostly idle and there would be none at all, the largest cause counts.
    """
    explained = joined(*(piece.cover for piece in known)) if known else None
    everything = np.ones(len(context.gaps), dtype=bool)
    left: dict[str, Cover] = {}
    for cause in CAUSES:
        cover = context.idle(everything, (cause,))
        left[cause] = difference(cover, explained) if explained is not None else cover
    findings = [_finding(cause, cover) for cause, cover in left.items() if context.worth(cover.length)]
    idle = sum(cover.length for cover in left.values())
    if not findings and not known and 0 < _MOSTLY_PERCENT * context.window_ns <= 100.0 * idle:
        findings = [_finding(*max(left.items(), key=lambda item: item[1].length))]
    return findings


def _finding(cause: str, cover: Cover) -> Advice:
    headline, remedy, do, example, unless = _TEXTS[cause]
    return Advice(
        f"idle_{cause}",
        f"{headline} ({duration(cover.length)})",
        cover.length,
        f"idle {duration(cover.length)}: {CAUSES[cause]}",
        remedy,
        do,
        example,
        unless,
        "gpu_idle",
        cover=cover,
    )
