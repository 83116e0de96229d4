"""Find what the host did while the GPU was idle: launching, waiting, allocating, loading, its own code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.allocations import retries
from nsyswrap.analysis.advice.context import AdviceContext, loads_in_gaps
from nsyswrap.analysis.advice.replay import gained_without_waits
from nsyswrap.analysis.arrays.groups import ascending, median
from nsyswrap.analysis.conditions import run_conditions_of
from nsyswrap.analysis.diagnostics.run_checks import other_processes
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_operations import KERNEL, KINDS, communicating
from nsyswrap.analysis.launches import calls_selected
from nsyswrap.analysis.names import CLASSES, SYNCHRONISE, call_classes, calls_named
from nsyswrap.analysis.nvtx_ranges import domain_names, texts_and_domains
from nsyswrap.analysis.program_language import IN_PYTHON, language_of
from nsyswrap.analysis.range_texts import HOLDING, WAITING, gil_parts
from nsyswrap.base.lazy import regex
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import NOTHING, IntervalSet, difference, intersection, joined, union
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import NVTX_MARK, PROCESS_MASK, TO_DEVICE, TO_HOST

GARBAGE_DOMAIN = "nsyswrap.gc"  # of NVTX; the hook in the program marks collections (``--trace python-gc``)
_EVERY = 0.75  # waits per kernel
_MOST = 0.5  # of the host time
_CALLS = ("launch", "copy", "call", "synchronise")
_FEW = 0.25  # of the steps
_SOON = 0.05  # of a gap: a load within that time behind it is what the host prepared
_LONG = 10  # times the median gap: it says little of what takes the time
_BOUND = 0.25  # of the time: from there on, it is what bounds the program
# Calls that wait for another thread, process or device, or for time to pass.
_WAITS = regex(
    r"(p?poll|p?select|epoll_p?wait|pthread_cond_(timed|clock)?wait|sem_(timed|clock)?wait|futex|"
    r"p?read(v|64)?|recv(from|msg)?|accept|(u|nano|clock_nano)?sleep|wait(pid|id)?|sched_yield|"
    r"pthread_(mutex_(timed)?lock|join|rwlock_(rd|wr)lock)|fread|mq_(timed)?receive|msgrcv|sigtimedwait)$"
)


def launch_bound(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if the GPU waits for launches that nothing but the launches before them holds up."""
    kinds = context.kinds
    gaps = kinds.launching & ~kinds.waited & ~kinds.graph
    inside = context.idle(gaps, ("launch",))
    between = joined(context.idle(gaps, ("call",)), context.idle(gaps & ~kinds.long_host, ("host",)))
    cover = joined(inside, between)
    if not (context.worth(cover.length) and inside.length) or context.median_launch_ns is None:
        return
    works_ns = context.launches.narrow_gpu_ns[~context.launches.first]
    yield context.finding(
        "launch_bound",
        cover,
        "launch_overhead",
        bounds=_bounds(context, cover),
        launches=len(works_ns),
        median_launch_ns=context.median_launch_ns,
        median_work_ns=median(works_ns),
        inside_ns=inside.length,
        between_ns=between.length,
    )


def host_bound(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if the GPU is idle while the launching thread runs host code for long."""
    kinds = context.kinds
    gaps = kinds.long_host & ~_for_input(context)
    if context.judged.steps.has_steady:
        gaps &= ~kinds.loading
    cover = difference(context.idle(gaps, ("host",)), _collecting(context))
    if not context.worth(cover.length):
        return
    host = context.gaps.parts["host"]
    gaps &= host > 0  # before a graph there may be none
    yield context.finding(
        "host_bound",
        cover,
        "gpu_idle",
        bounds=_bounds(context, cover),
        gaps=int(np.count_nonzero(gaps)),
        median_ns=median(host[gaps]),
        idle_ns=cover.length,
        **(_longest(context, gaps) or _long_ones(context, gaps)),
        **_gil_times(context, gaps),
    )


def _bounds(context: AdviceContext, cover: IntervalSet) -> bool:
    """Return True if a program is bound by what takes this time."""
    return cover.length >= _BOUND * context.window_ns


def _gil_times(context: AdviceContext, gaps: NDArray[Any]) -> dict[str, Any]:
    """Return how long host code in these gaps held Python's lock and waited for it, if that was traced."""
    parts = gil_parts(context.capture)
    if parts is None:
        return {}
    names = {"gil_held_ns": HOLDING, "gil_waited_ns": WAITING}
    times = {name: parts[state] for name, state in names.items()}
    return {name: int((end - start)[gaps[gap]].sum()) for name, (gap, start, end) in times.items()}


def waiting_for_input(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if the GPU waits for data: host code before a copy to the device, or a traced wait."""
    gaps = _for_input(context)
    cover = difference(context.idle(gaps, ("host", "copy", "launch")), _collecting(context))
    if not context.worth(cover.length):
        return
    yield context.finding(
        "waiting_for_input",
        cover,
        "gpu_idle",
        os_calls_traced=context.capture.whole.has("osrt"),
        waits=int(gaps.sum()),
        median_ns=float(np.median(context.gaps.parts["host"][gaps])),
        idle_ns=cover.length,
        **_longest(context, gaps),
    )


def _longest(context: AdviceContext, gaps: NDArray[Any]) -> dict[str, Any]:
    """Return the host time of the longest of these gaps if it is most of theirs, but not of steps."""
    host = np.where(gaps, context.gaps.parts["host"], 0)
    longest = int(host.argmax())
    if context.judged.steps.has_steady or 2 * host[longest] <= host.sum():
        return {}
    return {"longest_ns": int(host[longest]), "before_kernels": bool(_before_kernels(context)[longest])}


def _long_ones(context: AdviceContext, gaps: NDArray[Any]) -> dict[str, Any]:
    """Return the host time of gaps before loading calls, or of a few long ones, if it is most; not of steps.

    A compiler in the program or in a library comes before such a call. XLA's clears buffers in between.
    """
    if context.judged.steps.has_steady:
        return {}
    host = np.where(gaps, context.gaps.parts["host"], 0)
    loading = int(host[loads_in_gaps(context, _SOON) > 0].sum())
    if 2 * loading > host.sum():
        return {"before_loading_ns": loading}
    ordered = np.sort(host)[::-1]
    count = int(np.searchsorted(np.cumsum(ordered), host.sum() / 2)) + 1
    if ordered[count - 1] <= _LONG * np.median(host[gaps]):
        return {}
    return {"half_gaps": count, "shorter_ns": int(ordered[count])}


def _before_kernels(context: AdviceContext) -> NDArray[Any]:
    """Mark the gaps before the first kernel of a whole capture without steps, which are start-up."""
    if (
        context.judged.steps.has_steady
        or context.capture.view.selection.windowed
        or not context.compute.length
    ):
        return np.zeros(len(context.gaps), bool)
    return context.gaps.end_ns <= context.compute.start[0]  # type: ignore[no-any-return]


def _for_input(context: AdviceContext) -> NDArray[Any]:
    """Mark the gaps in which a thread prepared or awaited input.

    Where OS calls are traced, they are those in which the thread waited in one for most of its host time.
    Otherwise they are those with long host code that end with a copy to the device. Before the first kernel
    it can as well be the program that starts.
    """
    kinds, gaps = context.kinds, context.gaps
    marks: NDArray[Any] = kinds.long_host & ~kinds.loading & ~_before_kernels(context)
    waited = waits_in_host_code(context)
    if waited is None:
        marks &= kinds.copying & (context.copy_kind == TO_DEVICE)
    else:
        marks &= waited > _MOST * gaps.parts["host"]
    return marks


def synchronizing(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if the host waits until the GPU is idle before it launches again.

    If the waits cost little while launches or host code are as slow, what they are a part of counts.
    """
    kinds = context.kinds
    small_result = kinds.copying & (context.copy_kind == TO_HOST)
    gaps = (kinds.waited & ~kinds.copying) | small_result
    cover = joined(context.idle(gaps, _CALLS), context.idle(gaps & ~kinds.long_host, ("host",)))
    if not context.worth(cover.length):
        return
    alone = min(gained_without_waits(context), context.most_saved_idle_ns)
    little: dict[str, Any] = (
        {} if context.worth(alone) else {"alone_percent": 100 * alone / context.window_ns}
    )
    kernels = int(np.count_nonzero(context.operations.kind == KINDS.index(KERNEL)))
    yield context.finding(
        "synchronizing",
        cover,
        "gpu_idle",
        ceiling_ns=context.most_saved_ns(cover) if little else alone,
        **little,
        after_every_operation=_waits(context) >= _EVERY * max(kernels, 1),
        gaps=int(gaps.sum()),
        idle_ns=cover.length,
    )


def _waits(context: AdviceContext) -> int:
    whole = context.capture.whole
    if not whole.has("api"):
        return 0
    waits = np.flatnonzero(call_classes(whole) == CLASSES.index(SYNCHRONISE))
    return int(np.count_nonzero(calls_selected(context.capture, waits)))


def allocating(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if the GPU is idle while memory is allocated or freed."""
    cover = _allocation(context)
    if not context.worth(cover.length):
        return
    gaps = context.kinds.allocating
    retried: dict[str, Any] = {"retries": len(times)} if (times := retries(context)) else {}
    yield context.finding(
        "allocating",
        cover,
        "gpu_idle",
        gaps=int(gaps.sum()),
        idle_ns=cover.length,
        inside_ns=context.idle(gaps, ("allocate",), outliers=True).length,
        **retried,
    )


def _allocation(context: AdviceContext) -> IntervalSet:
    """Return the idle time in gaps with allocating or freeing calls, without long host code."""
    gaps, kinds = context.kinds.allocating, context.kinds
    inside = context.idle(gaps, ("allocate", *_CALLS), outliers=True)
    return joined(inside, context.idle(gaps & ~kinds.long_host, ("host",), outliers=True))


def _loading(context: AdviceContext) -> IntervalSet:
    """Return the idle time in loading calls; in steps that of their gaps, as compilers are host code."""
    causes = ("load", "host", "allocate", *_CALLS) if context.judged.steps.has_steady else ("load",)
    return context.idle(context.kinds.loading, causes, outliers=True)


def loading_in_loop(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if the GPU is idle while kernels are compiled or loaded."""
    gaps, cover = context.kinds.loading, _loading(context)
    if not context.worth(cover.length):
        return
    loading, host = (context.idle(gaps, (cause,), outliers=True).length for cause in ("load", "host"))
    yield context.finding(
        "loading_in_loop",
        cover,
        "gpu_idle",
        calls=int(loads_in_gaps(context).sum()),
        idle_ns=cover.length,
        loading_ns=loading,
        host_ns=host,
        **_few_steps(context, gaps),
    )


def _few_steps(context: AdviceContext, gaps: NDArray[Any]) -> dict[str, Any]:
    """Return the numbers of the steps in which these gaps begin, if they are few: then it does not recur."""
    steps = context.judged.steps
    if not steps.has_steady:
        return {}
    begins = np.searchsorted(steps.start_ns, context.gaps.start_ns[gaps], "right") - 1
    numbers = ascending(begins[begins >= 0])
    if len(numbers) > _FEW * np.count_nonzero(steps.steady):
        return {}
    return {"step_numbers": tuple((numbers + steps.first).tolist())}


def _collecting(context: AdviceContext) -> IntervalSet:
    """Return the idle time in garbage collections of the process, outlier steps included."""
    start, end = collections_of(context.capture.whole, context.judged.steps.global_pid)
    if not len(start):
        return NOTHING
    every = np.ones(len(context.gaps), bool)
    return intersection(context.idle(every, ("host",), outliers=True), union(start, end))


def garbage_collection(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if the GPU is idle while Python collects garbage."""
    cover = _collecting(context)
    if not context.worth(cover.length):
        return
    start, end = collections_of(context.capture.whole, context.judged.steps.global_pid)
    within = context.judged.window.within(start, end)
    yield context.finding(
        "garbage_collection",
        cover,
        "gpu_idle",
        collections=int(np.count_nonzero(within)),
        collecting_ns=int(within.sum()),
        idle_ns=cover.length,
    )


def _shared(capture: Capture) -> dict[str, Any]:
    """Return ``gpu_shared`` if processes outside of the run had its GPU open: what they did is not known."""
    conditions = run_conditions_of(capture)
    return {"gpu_shared": True} if conditions and other_processes(conditions) else {}


def spikes(context: AdviceContext) -> Iterator[Finding]:
    """Yield a finding if a few unusually long steps take much time in which the GPU does not compute.

    Time for loading, allocating and collecting garbage is left out: those findings say why steps are long.
    So is the time in which other processes use the GPU, which is not the program's.
    """
    steps = context.judged.steps
    if not steps.has_steady or not steps.outlier.any():
        return
    numbers = np.flatnonzero(steps.outlier)
    computing = context.operations.computes & ~communicating(context.capture, context.operations)
    compute = union(context.operations.start_ns[computing], context.operations.end_ns[computing])
    explained = joined(compute, context.others, _loading(context), _allocation(context), _collecting(context))
    lost = steps.duration_ns - explained.within(steps.start_ns, steps.end_ns)
    usual = float(np.median(lost[steps.steady & ~steps.outlier]))
    more = int((lost[numbers] - usual).sum())
    if not context.worth(more):
        return
    pace = steps.duration_ns
    in_python = language_of(context.capture.whole) in IN_PYTHON
    is_unseen = in_python and not garbage_traced(context.capture.whole)
    unseen: dict[str, Any] = {"garbage_unknown": True} if is_unseen else {}
    yield context.finding(
        "spikes",
        difference(union(steps.start_ns[numbers], steps.end_ns[numbers]), explained),
        "step_budget",
        ceiling_ns=more,
        step_numbers=tuple((numbers + steps.first).tolist()),
        median_ns=float(np.median(pace[steps.steady])),
        outlier_ns=float(pace[numbers].mean()),
        more_ns=more,
        **unseen,
        **_shared(context.capture),
    )


def waits_in_host_code(context: AdviceContext) -> NDArray[Any] | None:
    """Return the time of each gap in which its thread waited in an OS call, in ns; None if not traced."""
    whole, gaps = context.capture.whole, context.gaps
    if not whole.has("osrt"):
        return None
    calls = whole.columns("osrt", "start_ns", "end_ns", "global_tid")
    waits = calls_named(whole, _WAITS, "osrt")
    waited = np.zeros(len(gaps), np.int64)
    for thread in ascending(gaps.thread).tolist():
        rows = waits[calls["global_tid"][waits] == thread]
        here = np.flatnonzero(gaps.thread == thread)
        cover = union(calls["start_ns"][rows], calls["end_ns"][rows])
        waited[here] = cover.within(gaps.start_ns[here], gaps.end_ns[here])
    return waited


CHECKS = (
    launch_bound,
    host_bound,
    waiting_for_input,
    synchronizing,
    allocating,
    loading_in_loop,
    garbage_collection,
    spikes,
)


def garbage_traced(whole: Capture) -> bool:
    """Return True if the hook was there to mark collections."""
    return whole.has("nvtx") and GARBAGE_DOMAIN in domain_names(whole)


@per_capture
def collections_of(whole: Capture, global_pid: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return start and end in ns of the marked collections of a process: no Python of it runs meanwhile."""
    if not garbage_traced(whole):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    events = whole.columns("nvtx", "start_ns", "event_type", "global_tid", "payload")
    end_ns, took_ns = events["start_ns"], events["payload"]
    marks = (events["event_type"] == NVTX_MARK) & (took_ns > 0) & (took_ns <= end_ns)
    rows = np.flatnonzero(marks & (events["global_tid"] & PROCESS_MASK == global_pid))
    codes, named = texts_and_domains(whole, rows)
    rows = rows[np.array([domain == GARBAGE_DOMAIN for _, domain in named] or [False])[codes]]
    return end_ns[rows] - took_ns[rows], end_ns[rows]
