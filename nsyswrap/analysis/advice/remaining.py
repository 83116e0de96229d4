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
        "record less: fewer kinds of events, or a part of the run",
        "nsyswrap profile --trace cuda --capture-range cudaProfilerApi -- ...",
        "the program runs without nsys: then this time is not lost",
    ),
    "queued": (
        "Short kernels: the GPU is idle between queued operations",
        "Fewer, longer kernels",
        "fuse short kernels, or launch them as a CUDA graph; fewer dependencies between streams",
        "step = torch.compile(step)",
        "the operations wait for another device or process",
    ),
    "load": (
        "Loading modules leaves the GPU idle",
        "Loading once",
        "load modules and create contexts before the loop; -r gpu_idle lists the gaps",
        "step()  # once before the loop: the first call of a kernel loads it",
        "it happens once and the program runs for long",
    ),
    "allocate": (
        "Allocating or freeing memory leaves the GPU idle",
        "Memory allocated once",
        "allocate before the loop, or from a pool: cudaMallocAsync; -r gpu_idle lists the gaps",
        "buffer = torch.empty(shape, device='cuda')  # before the loop",
        "it happens once and the program runs for long",
    ),
    "synchronise": (
        "Synchronizing calls leave the GPU idle",
        "Waiting less often",
        "take these calls out of the loop; -r gpu_idle lists the gaps",
        "loss_sum += loss.detach()  # and .item() once after the loop",
        "the host needs each result before it can go on",
    ),
    "launch": (
        "Launches leave the GPU idle",
        "CUDA graphs or fusion",
        "launch less: CUDA graphs, torch.compile, fused kernels; -r gpu_idle lists the gaps",
        "step = torch.compile(step, mode='reduce-overhead')  # or torch.cuda.CUDAGraph",
        "nsys makes every launch slower: compare the time without nsys before and after",
    ),
    "copy": (
        "Copy and memset calls leave the GPU idle",
        "Fewer copy calls",
        "copy more at once, asynchronously and from pinned memory; -r gpu_idle lists the gaps",
        "batch = batch.pin_memory().to('cuda', non_blocking=True)",
        "each copy carries a result that is needed at once",
    ),
    "host": (
        "Short host code between GPU operations",
        "Less host code between launches",
        "take host work out of the loop, or queue more GPU work ahead",
        "with concurrent.futures.ThreadPoolExecutor() as pool: following = pool.submit(prepare)",
        "the program had nothing to compute then",
    ),
    "call": (
        "Other CUDA calls leave the GPU idle",
        "Fewer CUDA calls",
        "take these calls out of the loop; -r cuda_api_sum names them",
        "nsyswrap report -r cuda_api_sum",
        "they belong to a phase that runs once",
    ),
    "migration": (
        "Unified memory: the GPU is idle until pages have moved",
        "Moving pages earlier",
        "start prefetches earlier, on a stream of their own, so that kernels run meanwhile",
        "cudaMemPrefetchAsync(following, bytes, device, copies);",
        "the host computes on these pages meanwhile",
    ),
    "unknown": (
        "The GPU is idle and the capture does not tell why",
        "Recording the launches",
        "record from the start, with CUDA traced in all processes",
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
