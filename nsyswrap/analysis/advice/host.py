"""Find what the host did while the GPU was idle: launching, waiting, allocating, loading, its own code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.advice.context import Advice, loads_in_gaps
from nsyswrap.analysis.advice.waiting_calls import waits_in_host_code
from nsyswrap.analysis.api_call_kinds import CLASSES, SYNCHRONISE, call_classes
from nsyswrap.analysis.arrays.intervals import difference, joined, union
from nsyswrap.analysis.gil import HOLDING, WAITING, gil_parts
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, MEMCPY, communicating
from nsyswrap.analysis.launches import calls_selected
from nsyswrap.base.text import counted
from nsyswrap.base.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.advice.context import AdviceContext
    from nsyswrap.analysis.arrays.intervals import Cover

TO_DEVICE, TO_HOST = 1, 2  # copyKind
TINY_BYTES = 64_000  # as in nsys' expert rule on synchronous copies
_LISTED = 4  # step numbers
_EVERY = 0.75  # waits per kernel
_MOST = 0.5  # of the host time
_CALLS = ("launch", "copy", "call", "synchronise")
_BOUND = 0.25  # of the time: from there on, it is what bounds the program


def launch_bound(context: AdviceContext) -> Iterator[Advice]:
    """Yield a finding if the GPU waits for launches that nothing but the launches before them holds up."""
    kinds = context.kinds
    gaps = kinds.launching & ~kinds.waited
    inside = context.idle(gaps, ("launch",))
    between = joined(context.idle(gaps, ("call",)), context.idle(gaps & ~kinds.long_host, ("host",)))
    cover = joined(inside, between)
    repeats = context.launches.of(~context.launches.first)
    if not (context.worth(cover.length) and inside.length and len(repeats)):
        return
    bound = cover.length >= _BOUND * context.window_ns
    how = "Launch-bound" if bound else "Launches leave the GPU idle"
    call, work = (duration(np.median(ns)) for ns in (repeats.api_ns, repeats.gpu_ns))
    yield Advice(
        "launch_bound",
        f"{how}: median launch {call} for {work} of GPU work",
        cover.length,
        f"{counted(len(repeats), 'repeated launches')}; GPU idle for {duration(inside.length)} of launch "
        f"latency and {duration(between.length)} of short host code and other calls between launches",
        "CUDA graphs or fusion",
        "reduce the number of launches: CUDA graphs, torch.compile, fused kernels, larger batches",
        "step = torch.compile(step, mode='reduce-overhead')",
        "nsys causes the delay, as it slows every launch: compare run times without nsys",
        "launch_overhead",
        cover=cover,
    )


def host_bound(context: AdviceContext) -> Iterator[Advice]:
    """Yield a finding if the GPU is idle while the launching thread runs host code for long."""
    kinds = context.kinds
    gaps = kinds.long_host & ~kinds.loading & ~_for_input(context)
    cover = context.idle(gaps, ("host",))
    if not context.worth(cover.length):
        return
    count = int(np.count_nonzero(gaps & (context.gaps.parts["host"] > 0)))
    lasting = duration(np.median(context.gaps.parts["host"][gaps]))
    bound = cover.length >= _BOUND * context.window_ns
    yield Advice(
        "host_bound",
        f"{'Host-bound: host code leaves the GPU idle,' if bound else 'Host code leaves the GPU idle:'} "
        f"median {lasting} per gap",
        cover.length,
        f"gaps with the launching thread outside CUDA calls: {context.steps_text(count)}, "
        f"{duration(cover.length)} in total{_gil_text(context, gaps)}",
        "Less host code between launches",
        "move host work out of the loop or to a pool of threads, or queue more GPU work ahead",
        "future = pool.submit(prepare); step(batch); batch = future.result()",
        "the program had no work for the GPU, for example between requests",
        "gpu_idle",
        cover=cover,
    )


def _gil_text(context: AdviceContext, gaps: NDArray[Any]) -> str:
    """Return how long host code in these gaps held Python's lock and waited for it, if that was traced."""
    parts = gil_parts(context.capture)
    if parts is None:
        return ""
    held, waited = (
        duration((end - start)[gaps[gap]].sum())
        for gap, start, end in (parts[state] for state in (HOLDING, WAITING))
    )
    return f"; Python's GIL held for {held}, waited for {waited}"


def waiting_for_input(context: AdviceContext) -> Iterator[Advice]:
    """Yield a finding if the GPU waits for data: host code before a copy to the device, or a traced wait."""
    gaps = _for_input(context)
    cover = context.idle(gaps, ("host", "copy", "launch"))
    if not context.worth(cover.length):
        return
    lasting = duration(np.median(context.gaps.parts["host"][gaps]))
    if context.capture.whole.has("osrt"):
        what = f"Waiting for input: OS calls leave the GPU idle, median {lasting} per gap"
        how = "mostly in blocking OS calls"
    else:
        what = f"Waiting for input or other host code: median {lasting} before a copy to the GPU"
        how = "use --trace cuda,nvtx,osrt to tell waiting from computing"
    yield Advice(
        "waiting_for_input",
        what,
        cover.length,
        f"waits: {context.steps_text(int(gaps.sum()))}, {duration(cover.length)} in total; {how}",
        "Loading input ahead",
        "load and prepare input in other processes, ahead of the step that needs it",
        "DataLoader(dataset, num_workers=8, pin_memory=True)",
        "the host computes something else in that time; then move that work out of the loop",
        "gpu_idle",
        cover=cover,
    )


def _for_input(context: AdviceContext) -> NDArray[Any]:
    """Mark the gaps in which a thread prepared or awaited input.

    Where OS calls are traced, they are those in which the thread waited in one for most of its host time.
    Otherwise they are those with long host code that end with a copy to the device.
    """
    kinds, gaps = context.kinds, context.gaps
    marks: NDArray[Any] = kinds.long_host & ~kinds.loading
    waited = waits_in_host_code(context)
    if waited is None:
        marks &= kinds.copying & (copy_kind(context) == TO_DEVICE)
    else:
        marks &= waited > _MOST * gaps.parts["host"]
    return marks


def copy_kind(context: AdviceContext) -> NDArray[Any]:
    """Return the kind of the copy that ends each gap; only that of gaps that a copy ends has a meaning."""
    gaps, kinds = context.gaps, context.kinds
    kind = np.zeros(len(gaps), np.int64)
    if kinds.copying.any():
        rows = gaps.operations.row[gaps.after[kinds.copying]]
        kind[kinds.copying] = context.capture.whole.columns(MEMCPY, "copy_kind")["copy_kind"][rows]
    return kind


def synchronizing(context: AdviceContext) -> Iterator[Advice]:
    """Yield a finding if the host waits until the GPU is idle before it launches again."""
    kinds = context.kinds
    small_result = kinds.copying & (copy_kind(context) == TO_HOST)
    gaps = (kinds.waited & ~kinds.copying) | small_result
    cover = joined(context.idle(gaps, _CALLS), context.idle(gaps & ~kinds.long_host, ("host",)))
    if not context.worth(cover.length):
        return
    kernels = int(np.count_nonzero(context.operations.kind == KINDS.index(KERNEL)))
    every = _waits(context) >= _EVERY * max(kernels, 1)
    how = "Synchronizing after every operation" if every else "Synchronizing"
    yield Advice(
        "synchronizing",
        f"{how} leaves the GPU idle",
        cover.length,
        f"gaps after a wait for the GPU: {context.steps_text(int(gaps.sum()))}; GPU idle for "
        f"{duration(cover.length)} until the wait returned and the next launch arrived",
        "Synchronizing less often",
        "avoid .item(), .cpu(), printing a tensor and cudaDeviceSynchronize in the loop; wait on "
        "events instead",
        "loss_sum += loss.detach()  # and .item() once after the loop",
        "the host needs each result before it can continue, or synchronizes for timing",
        "gpu_idle",
        cover=cover,
    )


def _waits(context: AdviceContext) -> int:
    whole = context.capture.whole
    if not whole.has("api"):
        return 0
    waits = np.flatnonzero(call_classes(whole) == CLASSES.index(SYNCHRONISE))
    return int(np.count_nonzero(calls_selected(context.capture, waits)))


def allocating(context: AdviceContext) -> Iterator[Advice]:
    """Yield a finding if the GPU is idle while memory is allocated or freed."""
    cover = _allocation(context)
    if not context.worth(cover.length):
        return
    gaps = context.kinds.allocating
    inside = context.idle(gaps, ("allocate",), outliers=True).length
    yield Advice(
        "allocating",
        f"Allocating: the GPU is idle for {duration(cover.length)} while memory is allocated or freed",
        cover.length,
        f"gaps with calls that allocate or free memory: {context.steps_text(int(gaps.sum()))}; GPU "
        f"idle for {duration(inside)} in these calls; cudaFree also waits for the GPU",
        "Allocating once",
        "allocate before the loop or from a pool: cudaMallocAsync, or PyTorch's cache without empty_cache()",
        "buffer = torch.empty(shape, device='cuda')  # once, before the loop",
        "the allocation happens once in a long run",
        "gpu_idle",
        cover=cover,
    )


def _allocation(context: AdviceContext) -> Cover:
    """Return the idle time in gaps with allocating or freeing calls, without long host code."""
    gaps, kinds = context.kinds.allocating, context.kinds
    inside = context.idle(gaps, ("allocate", *_CALLS), outliers=True)
    return joined(inside, context.idle(gaps & ~kinds.long_host, ("host",), outliers=True))


def _loading(context: AdviceContext) -> Cover:
    """Return the idle time in gaps with loading calls or first launches."""
    return context.idle(context.kinds.loading, ("load", "host", "allocate", *_CALLS), outliers=True)


def loading_in_loop(context: AdviceContext) -> Iterator[Advice]:
    """Yield a finding if the GPU is idle while kernels are compiled, loaded or launched first."""
    gaps, cover = context.kinds.loading, _loading(context)
    if not context.worth(cover.length):
        return
    loads = int(loads_in_gaps(context).sum())
    where = "in the steps" if context.part.steps.found else "at first use"
    loading, host = (context.idle(gaps, (cause,), outliers=True).length for cause in ("load", "host"))
    yield Advice(
        "loading_in_loop",
        f"JIT compiling or module loading: the GPU is idle for {duration(cover.length)} {where}",
        cover.length,
        f"loading calls: {context.steps_text(loads)}; {duration(loading)} in loading, {duration(host)} "
        "in host code in the same gaps",
        "Compiling and loading once",
        "compile and load before the loop: fixed shapes, cached kernels, one warm-up call per kernel",
        "step = torch.compile(step, dynamic=True)  # called before the loop",
        "the program runs each kernel only once by design",
        "gpu_idle",
        cover=cover,
    )


def spikes(context: AdviceContext) -> Iterator[Advice]:
    """Yield a finding if a few unusually long steps take much time in which the GPU does not compute.

    Time for loading and allocating is left out: those findings say why the steps are long.
    """
    steps = context.part.steps
    if not steps.found or not steps.outlier.any():
        return
    numbers = np.flatnonzero(steps.outlier)
    computing = context.operations.computes & ~communicating(context.capture, context.operations)
    compute = union(context.operations.start_ns[computing], context.operations.end_ns[computing])
    explained = joined(compute, _loading(context), _allocation(context))
    lost = steps.duration_ns - explained.within(steps.start_ns, steps.end_ns)
    usual = float(np.median(lost[steps.steady & ~steps.outlier]))
    more = int((lost[numbers] - usual).sum())
    if not context.worth(more):
        return
    pace = steps.pace_ns
    median, longer = float(np.median(pace[steps.steady])), float(pace[numbers].mean())
    listed = ", ".join(map(str, (numbers[:_LISTED] + steps.first).tolist())) + (
        ", ..." if len(numbers) > _LISTED else ""
    )
    of = f"{len(numbers)} of {int(steps.steady.sum())} steps"
    times = f"{longer / max(median, 1):,.1f} x the median"
    several = f"Outliers: {of} take {times} (steps {listed})"
    yield Advice(
        "spikes",
        several if len(numbers) > 1 else f"Outlier: step {listed}, {of}, takes {times}",
        more,
        f"median step {duration(median)}, outliers {duration(longer)} on average; "
        f"{duration(more)} more without compute than usual",
        "Removing the extra work",
        "move the extra work elsewhere: checkpoints and logs to another thread, validation to another job",
        "threading.Thread(target=torch.save, args=(snapshot, path)).start()",
        "the extra work is needed in these steps",
        "step_budget",
        cover=difference(union(steps.start_ns[numbers], steps.end_ns[numbers]), explained),
    )


CHECKS = (
    launch_bound,
    host_bound,
    waiting_for_input,
    synchronizing,
    allocating,
    loading_in_loop,
    spikes,
)
