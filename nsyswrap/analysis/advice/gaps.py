"""The GPU had nothing to do: it waited for launches, for the host, for synchronises, for allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.advice import Finding
from nsyswrap.analysis.launch_bound import stakes
from nsyswrap.base.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsyswrap.analysis.advice import Situation


def launch_bound(seen: Situation) -> Iterator[Finding]:
    """Repeated launches take longer than what they launch."""
    if not (seen.launched.call.size and (found := stakes(seen.capture)).launch_bound):
        return
    if not (saved_ns := found.saved_ns + found.between_ns):
        return  # each comes after a wait: the launches of graphs would as well
    repeats = seen.launched.of(~seen.launched.first)
    yield Finding(
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


def waiting_for_host(seen: Situation) -> Iterator[Finding]:
    """Between repeated launches the host does something else, and no work is queued."""
    if not len(seen.idle):
        return
    lost = int(seen.idle.parts["host"][seen.after_repeat].sum())
    if not seen.worth(lost):
        return
    yield Finding(
        "host_bound",
        "the GPU waits for the host between launches",
        lost,
        f"idle for {duration(lost)} while the launching thread was outside of all CUDA calls",
        "take host work out of the loop, do it in another thread, or queue more work ahead",
        "the program had nothing to compute then, as between requests or while it read its input",
        "gpu_idle",
    )


def drained_by_synchronise(seen: Situation) -> Iterator[Finding]:
    """The host waits until the GPU is idle, and only then launches on."""
    if not len(seen.idle):
        return
    waited = seen.after_repeat & (seen.idle.parts["synchronise"] > 0)
    lost = int(sum(seen.idle.parts[cause][waited].sum() for cause in ("synchronise", "launch")))
    if not seen.worth(lost):
        return
    yield Finding(
        "drained_by_synchronise",
        "the host waits until the GPU is idle, then launches again",
        lost,
        f"gaps that follow a synchronise: {int(waited.sum()):,}; in them {duration(lost)} of idle time for "
        "its return and the next launch",
        "wait less often: no .item(), .cpu() or cudaDeviceSynchronize in the loop; wait on events",
        "the host needs the result before it can go on, or waits in order to time what it launched",
        "gpu_idle",
    )


def allocating(seen: Situation) -> Iterator[Finding]:
    """Memory is allocated and freed while the GPU waits."""
    if not len(seen.idle):
        return
    part = seen.idle.parts["allocate"]
    lost = int(part.sum())
    if not seen.worth(lost):
        return
    yield Finding(
        "allocating",
        "the GPU waits for memory to be allocated or freed",
        lost,
        f"idle for {duration(lost)} while the launching thread was in allocating or freeing calls "
        f"(gaps: {np.count_nonzero(part):,})",
        "allocate once before the loop, or take memory from a pool (cudaMallocAsync, PyTorch's cache)",
        "it happens once, at the start, and the program runs for long",
        "gpu_idle",
    )


LOOKS = (launch_bound, waiting_for_host, drained_by_synchronise, allocating)
