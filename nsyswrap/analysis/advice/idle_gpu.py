"""Find why the GPU was idle or underused: waits, small kernels, exposed communication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.advice.context import Advice
from nsyswrap.analysis.arrays.intervals import intersection, union
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, KINDS, communicating, places_among, selected_ns
from nsyswrap.analysis.launch_bound import launch_cost_of
from nsyswrap.analysis.names import name_codes
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import duration
from nsyswrap.capture.schema import SPANS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.advice.context import AdviceContext
    from nsyswrap.analysis.gpu_operations import GpuOperations


_GRID = ("grid_x", "grid_y", "grid_z")


def launch_bound(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if repeated launches leave the GPU idle as long as it is busy."""
    if not (context.launches.call.size and (cost := launch_cost_of(context.capture)).launch_bound):
        return
    if not (saved_ns := cost.saved_ns + cost.between_ns):
        return  # each launch follows a wait, and so would the launch of a graph
    repeats = context.launches.of(~context.launches.first)
    yield Advice(
        "launch_bound",
        "the GPU waits for launches longer than it works",
        saved_ns,
        f"repeated launches: {len(repeats):,}, median {duration(np.median(repeats.api_ns))} of CPU time each "
        f"for {duration(np.median(repeats.gpu_ns))} on the GPU; it was busy for {duration(cost.busy_ns)} "
        f"and idle for {duration(cost.exposed_ns)} while a launch was on its way",
        "launch less: CUDA graphs (torch.cuda.graph, torch.compile(mode='reduce-overhead')), fused kernels, "
        "larger batches",
        "nsys makes every launch slower: look at the time without it before and after",
        "launch_overhead",
    )


def waiting_for_host(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if the GPU is idle because the host runs other code between repeated launches."""
    if not len(context.gaps):
        return
    lost = int(context.gaps.parts["host"][context.after_repeat].sum())
    if not context.worth(lost):
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


def drained_by_synchronise(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if the host synchronizes until the GPU is idle before it launches again."""
    if not len(context.gaps):
        return
    waited = context.after_repeat & (context.gaps.parts["synchronise"] > 0)
    lost = int(sum(context.gaps.parts[cause][waited].sum() for cause in ("synchronise", "launch")))
    if not context.worth(lost):
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


def allocating(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if the GPU is idle while memory is allocated or freed."""
    if not len(context.gaps):
        return
    part = context.gaps.parts["allocate"]
    lost = int(part.sum())
    if not context.worth(lost):
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


def few_blocks(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if kernels have fewer blocks than the GPU has multiprocessors."""
    kernels = context.operations.of(context.operations.kind == KINDS.index(KERNEL))
    count = _multiprocessors(context)
    if not len(kernels) or count is None:
        return
    sizes = context.capture.whole.columns(KERNEL, *_GRID)
    blocks = np.prod([sizes[axis][kernels.row] for axis in _GRID], axis=0)
    took = selected_ns(context.capture, kernels)
    few = (blocks < count) & ~communicating(context.capture, kernels)
    pieces = context.pieces.of(context.pieces.kind == KINDS.index(KERNEL))
    place = places_among(kernels, pieces)
    part, small = blocks[place] / count, few[place]
    unused = sum(_unused_ns(pieces.of(rows), part[rows], small[rows]) for *_, rows in pieces.by_device())
    if not context.worth(unused):
        return
    codes, texts = name_codes(context.capture.whole, KERNEL)
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
    """Return the time for which multiprocessors were idle while a kernel with few blocks ran, in ns.

    Each moment counts with the idle share of the GPU. ``part`` is the share of the GPU that each kernel can
    use; the parts of kernels that run at the same time add up.
    """
    times = np.concatenate([kernels.start_ns, kernels.end_ns])
    order = np.argsort(times, kind="stable")
    used, running = (np.cumsum(np.concatenate([now, -now])[order])[:-1] for now in (part, few.astype(int)))
    idle = np.where(running > 0, np.maximum(1 - used, 0), 0)
    return int((np.diff(times[order]) * idle).sum())


def communication_not_hidden(context: AdviceContext) -> Iterator[Advice]:
    """Yield advice if communication kernels are exposed: no other kernel runs at the same time."""
    total = hidden = 0
    for _, _, rows in context.pieces.by_device():
        mine = context.pieces.of(rows)
        kernels = mine.of(mine.kind == KINDS.index(KERNEL))
        if not len(kernels):
            continue
        communicates = communicating(context.capture, kernels)
        graphs = mine.of(mine.kind == KINDS.index(GRAPH))
        communication = union(kernels.start_ns[communicates], kernels.end_ns[communicates])
        starts, ends = ((getattr(kernels, end)[~communicates], getattr(graphs, end)) for end in SPANS)
        compute = union(np.concatenate(starts), np.concatenate(ends))
        total, hidden = total + communication.length, hidden + intersection(communication, compute).length
    if not context.worth(total - hidden):
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


def _multiprocessors(context: AdviceContext) -> int | None:
    """Return the number of multiprocessors of a GPU; None if it is not recorded or the GPUs differ."""
    if not context.capture.whole.has("gpu"):
        return None
    counts = set(context.capture.whole.columns("gpu", "multiprocessors")["multiprocessors"].tolist()) - {
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
