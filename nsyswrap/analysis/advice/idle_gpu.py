"""Find why the GPU was idle or underused: waits, small kernels, communication that is not overlapped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.advice import Advice
from nsyswrap.analysis.arrays.intervals import intersection, union
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, KINDS, communicating
from nsyswrap.analysis.launch_bound import launch_cost_of
from nsyswrap.analysis.names import name_codes
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.advice import AdviceContext
    from nsyswrap.analysis.gpu_operations import GpuOperations


_GRID = ("grid_x", "grid_y", "grid_z")


def launch_bound(seen: AdviceContext) -> Iterator[Advice]:
    """Repeated launches take longer than what they launch."""
    if not (seen.launches.call.size and (found := launch_cost_of(seen.capture)).launch_bound):
        return
    if not (saved_ns := found.saved_ns + found.between_ns):
        return  # each comes after a wait: the launches of graphs would as well
    repeats = seen.launches.of(~seen.launches.first)
    yield Advice(
        "launch_bound",
        "the GPU waits for launches longer than it works",
        saved_ns,
        f"repeated launches: {len(repeats):,}, median {duration(np.median(repeats.api_ns))} of CPU time each "
        f"for {duration(np.median(repeats.gpu_ns))} on the GPU; it was busy for {duration(found.busy_ns)} "
        f"and idle for {duration(found.exposed_ns)} while a launch was on its way",
        "launch less: CUDA graphs (torch.cuda.graph, torch.compile(mode='reduce-overhead')), fused kernels, "
        "larger batches",
        "nsys makes every launch slower: look at the time without it before and after",
        "launch_overhead",
    )


def waiting_for_host(seen: AdviceContext) -> Iterator[Advice]:
    """Between repeated launches the host does something else, and no work is queued."""
    if not len(seen.gaps):
        return
    lost = int(seen.gaps.parts["host"][seen.after_repeat].sum())
    if not seen.worth(lost):
        return
    yield Advice(
        "host_bound",
        "the GPU waits for the host between launches",
        lost,
        f"idle for {duration(lost)} while the launching thread was outside of all CUDA calls",
        "take host work out of the loop, do it in another thread, or queue more work ahead",
        "the program had nothing to compute then, as between requests or while it read its input",
        "gpu_idle",
    )


def drained_by_synchronise(seen: AdviceContext) -> Iterator[Advice]:
    """The host waits until the GPU is idle, and only then launches on."""
    if not len(seen.gaps):
        return
    waited = seen.after_repeat & (seen.gaps.parts["synchronise"] > 0)
    lost = int(sum(seen.gaps.parts[cause][waited].sum() for cause in ("synchronise", "launch")))
    if not seen.worth(lost):
        return
    yield Advice(
        "drained_by_synchronise",
        "the host waits until the GPU is idle, then launches again",
        lost,
        f"gaps that follow a synchronise: {int(waited.sum()):,}; in them {duration(lost)} of idle time for "
        "its return and the next launch",
        "wait less often: no .item(), .cpu() or cudaDeviceSynchronize in the loop; wait on events",
        "the host needs the result before it can go on, or waits in order to time what it launched",
        "gpu_idle",
    )


def allocating(seen: AdviceContext) -> Iterator[Advice]:
    """Memory is allocated and freed while the GPU waits."""
    if not len(seen.gaps):
        return
    part = seen.gaps.parts["allocate"]
    lost = int(part.sum())
    if not seen.worth(lost):
        return
    yield Advice(
        "allocating",
        "the GPU waits for memory to be allocated or freed",
        lost,
        f"idle for {duration(lost)} while the launching thread was in allocating or freeing calls "
        f"(gaps: {np.count_nonzero(part):,})",
        "allocate once before the loop, or take memory from a pool (cudaMallocAsync, PyTorch's cache)",
        "it happens once, at the start, and the program runs for long",
        "gpu_idle",
    )


def few_blocks(seen: AdviceContext) -> Iterator[Advice]:
    """Kernels of fewer blocks than the GPU has multiprocessors: the others stand idle."""
    kernels = seen.operations.of(seen.operations.kind == KINDS.index(KERNEL))
    count = _multiprocessors(seen)
    if not len(kernels) or count is None:
        return
    sizes = seen.capture.whole.columns(KERNEL, *_GRID)
    blocks = np.prod([sizes[axis][kernels.row] for axis in _GRID], axis=0)
    took = kernels.end_ns - kernels.start_ns
    few = (blocks < count) & ~communicating(seen.capture, kernels)
    unused = sum(
        _unused_ns(kernels.of(rows), blocks[rows] / count, few[rows]) for *_, rows in kernels.by_device()
    )
    if not seen.worth(unused):
        return
    codes, texts = name_codes(seen.capture.whole, KERNEL)
    names = codes[kernels.row]
    worst = int(np.bincount(names[few], took[few]).argmax())
    yield Advice(
        "few_blocks",
        "kernels have fewer blocks than the GPU has multiprocessors: the others have nothing to do",
        unused,
        f"kernel executions: {int(few.sum()):,}, {duration(took[few].sum())} in all, median "
        f"{np.median(blocks[few]):g} blocks for {count} multiprocessors; most of it in {texts[worst]}",
        "give the kernel more blocks: more elements at once, smaller blocks, or batch small problems",
        "other streams fill the GPU meanwhile, or one block is all that the problem allows",
        "cuda_gpu_kern_gb_sum",
    )


def _unused_ns(kernels: GpuOperations, part: NDArray[Any], few: NDArray[Any]) -> int:
    """Return for how long how much of a GPU had nothing to do while a kernel of few blocks ran on it.

    ``part`` is how much of the GPU each kernel's blocks can take; of those at the same time it adds up.
    """
    times = np.concatenate([kernels.start_ns, kernels.end_ns])
    order = np.argsort(times, kind="stable")
    used, running = (np.cumsum(np.concatenate([now, -now])[order])[:-1] for now in (part, few.astype(int)))
    idle = np.where(running > 0, np.maximum(1 - used, 0), 0)
    return int((np.diff(times[order]) * idle).sum())


def communication_not_hidden(seen: AdviceContext) -> Iterator[Advice]:
    """Communication during which nothing is computed."""
    total = hidden = 0
    for _, _, rows in seen.operations.by_device():
        mine = seen.operations.of(rows)
        kernels = mine.of(mine.kind == KINDS.index(KERNEL))
        if not len(kernels):
            continue
        talks = communicating(seen.capture, kernels)
        graphs = mine.of(mine.kind == KINDS.index(GRAPH))
        talk = union(kernels.start_ns[talks], kernels.end_ns[talks])
        starts, ends = ((getattr(kernels, at)[~talks], getattr(graphs, at)) for at in ("start_ns", "end_ns"))
        compute = union(np.concatenate(starts), np.concatenate(ends))
        total, hidden = total + talk.length, hidden + intersection(talk, compute).length
    if not seen.worth(total - hidden):
        return
    yield Advice(
        "communication_not_hidden",
        "the GPU communicates, and computes nothing meanwhile",
        total - hidden,
        f"communication kernels (NCCL) ran for {duration(total)}, of which other kernels hid "
        f"{duration(hidden)}; waiting for slower ranks is part of that",
        "overlap it with compute (buckets, an own stream), communicate less, or find the rank that is late",
        "the compute that could hide it needs its result",
        "gpu_time",
    )


def _multiprocessors(seen: AdviceContext) -> int | None:
    """Return how many a GPU has; None where the export does not say, or GPUs differ."""
    if not seen.capture.whole.has("gpu"):
        return None
    counts = set(seen.capture.whole.columns("gpu", "multiprocessors")["multiprocessors"].tolist()) - {
        MISSING,
        0,
    }
    return counts.pop() if len(counts) == 1 else None


CHECKS = (
    launch_bound,
    waiting_for_host,
    drained_by_synchronise,
    allocating,
    few_blocks,
    communication_not_hidden,
)
