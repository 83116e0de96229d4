"""Facts on GPU memory: near the limit of the GPU, growing, allocated in each step, retried after it ran out.

None of them names a cost: memory that is held takes no time, and idle time around allocating calls is a
finding of its own. Without recorded allocations, retries alone are known: they are calls. A framework that
keeps freed memory for itself holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.arrays.groups import ascending, rows_by
from nsyswrap.analysis.finding import Finding, FindingKind
from nsyswrap.analysis.launches import calls_selected
from nsyswrap.analysis.names import CLASSES, LAUNCH, by_thread, call_classes, with_name
from nsyswrap.analysis.program_language import PYTORCH, framework_of
from nsyswrap.analysis.range_tree.memory import NO_RANGE, allocation_ranges
from nsyswrap.analysis.range_tree.tree import numbered
from nsyswrap.analysis.transfers import gpu_memory
from nsyswrap.analysis.usage import (
    GPU_MEMORY,
    MEMORY_KINDS,
    Allocations,
    allocations_of,
    held_over_time,
    unknown_frees,
)
from nsyswrap.base.constants import MISSING
from nsyswrap.base.lazy import regex
from nsyswrap.capture.intervals import NOTHING, union
from nsyswrap.capture.schema import SPANS

_NEAR = 0.9  # of the memory of the GPU
_LEAST_STEPS = 6  # fewer show no trend
OUT_OF_MEMORY = 2  # of cudaError_t and CUresult
_TAKES = regex("cu(da)?(Malloc|MemAlloc|MemCreate)(?!Host|Managed|.*Array)")
_FREES = regex("cu(da)?(Free|MemFree|MemRelease)(?!Host|.*Array)")
_PARTS = 3  # of the steps, in each of which memory has to grow
_LEAST_GROWTH = 0.01  # of what is held at first
_MOST_OTHERS = 0.1  # of the steps: those that do not allocate, or do not free it again
_NUMBER = regex(r"(?<=[ _:#=-])\d+(?=/|$)")  # at the end of the name of a range
_FREED = 0.5  # of what a step allocates: with less freed in the same step, memory grows or moves


def near_limit(context: AdviceContext) -> Iterator[Finding]:
    """Yield the peak of the GPU memory of the process if it is near the size of the GPU."""
    size = gpu_memory(context.capture).size_bytes
    if not size > 0:
        return
    for held in _by_device(context):
        times, values = held_over_time(held)
        peak = int(values.argmax())
        if not _NEAR * size <= values[peak] <= size:  # more than there is: frees are missing
            continue
        at_peak = (held.start_ns <= times[peak]) & (times[peak] < held.end_ns)
        numbers = {"held_bytes": int(values[peak]), "size_bytes": int(size)}
        yield _fact(context, "memory_near_limit", **numbers, range=_most(context, held, at_peak))


def grows(context: AdviceContext) -> Iterator[Finding]:
    """Yield by how much GPU memory grows over the steps, if it never shrinks and does not stop growing."""
    starts, ends = _windows(context)
    if len(starts) < _LEAST_STEPS or unknown_frees(context.capture.whole):
        return
    for held in _by_device(context):
        times, values = held_over_time(held)
        after = np.searchsorted(times, np.append(starts[0], ends), "right") - 1
        levels = np.where(after < 0, 0, values[after])
        more = np.diff(levels)
        parts = np.array_split(more > 0, _PARTS)
        grown = int(levels[-1] - levels[0])
        if (more < 0).any() or not all(part.any() for part in parts) or grown < _LEAST_GROWTH * levels[0]:
            continue
        kept = (held.start_ns >= starts[0]) & (held.start_ns < ends[-1]) & (held.end_ns > ends[-1])
        numbers = {"grown_bytes": grown, "of_steps": len(starts)}
        yield _fact(context, "memory_grows", **numbers, range=_most(context, held, kept))


def in_each_step(context: AdviceContext) -> Iterator[Finding]:
    """Yield what a step allocates if nearly all do and free most of it again; CUDA's pools cost little."""
    starts, ends = _windows(context)
    if len(starts) < _LEAST_STEPS:
        return
    for held in _by_device(context):
        step = np.searchsorted(starts, held.start_ns, "right") - 1
        inside = (step >= 0) & (held.start_ns < ends[np.maximum(step, 0)]) & np.isin(held.pool, (MISSING, 0))
        freed = inside & (held.end_ns <= ends[np.maximum(step, 0)])
        counts = np.bincount(step[inside], minlength=len(starts))
        allocated, again = (np.bincount(step[of], held.bytes[of], len(starts)) for of in (inside, freed))
        is_usual = (counts > 0) & (again >= _FREED * allocated)
        if (~is_usual).mean() > _MOST_OTHERS:
            continue
        numbers = {"allocations": int(np.median(counts)), "allocated_bytes": int(np.median(allocated))}
        yield _fact(context, "memory_in_steps", **numbers, range=_most(context, held, inside))


def retried(context: AdviceContext) -> Iterator[Finding]:
    """Yield how often PyTorch's allocator ran out of memory, freed its cache and allocated again."""
    if times := retries(context):
        yield _fact(context, "memory_retries", retries=len(times), calls_ns=sum(times))


def retries(context: AdviceContext) -> list[int]:
    """Return the time in ns in the calls of each retry of PyTorch's allocator.

    A retry is an allocation that fails for lack of memory, and all further calls of its thread that free or
    allocate memory up to the next allocation that succeeds, if any of them frees. If the thread launches
    between, the program caught the error.
    """
    whole = context.capture.whole
    if not whole.has("api") or framework_of(whole) != PYTORCH:
        return []
    frees = with_name(whole, _FREES)
    if not calls_selected(context.capture, np.flatnonzero(frees)).any():
        return []  # results are one more pass over all calls: most programs free nothing in their steps
    calls, takes = whole.columns("api", *SPANS, "return_value"), with_name(whole, _TAKES)
    out = takes & (calls["return_value"] == OUT_OF_MEMORY)
    failed = np.flatnonzero(out)
    begins = np.zeros(len(out), bool)
    begins[failed[calls_selected(context.capture, failed)]] = True
    launching = call_classes(whole) == CLASSES.index(LAUNCH)
    found = list[int]()
    for thread in by_thread(whole).values() if begins.any() else ():
        if begins[thread].any():
            rows = thread[(takes | frees | launching)[thread]]
            for retry in _retries(rows, begins, takes & ~out, launching):
                if frees[retry].any():
                    found.append(union(calls["start_ns"][retry], calls["end_ns"][retry]).length)
    return found


def _retries(
    rows: NDArray[Any], begins: NDArray[Any], ends: NDArray[Any], breaks: NDArray[Any]
) -> Iterator[NDArray[Any]]:
    """Yield the rows from each one that begins up to the first that ends, unless one between breaks them."""
    closing = np.flatnonzero(ends[rows] | breaks[rows])
    reached = 0
    for first in np.flatnonzero(begins[rows]).tolist():
        after = closing[np.searchsorted(closing, first) :][:1]
        if first >= reached and len(after):
            reached = int(after[0]) + 1
            if ends[rows[after[0]]]:
                yield rows[first:reached]


def _by_device(context: AdviceContext) -> Iterator[Allocations]:
    """Yield the GPU memory of the process on each device."""
    every = allocations_of(context.capture)
    every = every.of(np.flatnonzero(every.memory_kind == MEMORY_KINDS.index(GPU_MEMORY)))
    for rows in rows_by(every.global_pid, every.device).values():
        yield every.of(rows)


def _windows(context: AdviceContext) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return starts and ends in ns of the steady steps on the host, which is where memory is allocated."""
    steps = context.judged.steps
    if not steps.has_steady or len(steps.host_start_ns) != len(steps):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    start = steps.host_start_ns[steps.steady]
    return start, start + steps.host_ns[steps.steady]


def _most(context: AdviceContext, held: Allocations, chosen: NDArray[np.bool_]) -> str:
    """Return the range, or module, with most of these bytes; empty if that is in none.

    Ranges that differ in their first number alone, as those in steps do, count as one: ``step */forward``.
    """
    some = held.of(np.flatnonzero(chosen))
    if not len(some.row):
        return ""
    number, paths = allocation_ranges(context.capture.whole, some)
    code, names = numbered([_NUMBER.sub("*", path, count=1) for path in paths])
    sums = np.zeros(len(names), np.int64)
    np.add.at(sums, code[number], some.bytes)
    most = int(sums.argmax())
    own = ascending(number[code[number] == most])
    path = paths[own[0]] if len(own) == 1 else names[most]
    return "" if path == NO_RANGE else path


def _fact(context: AdviceContext, kind: FindingKind, **numbers: Any) -> Finding:
    return context.fact(kind, NOTHING, "gpu_memory", **numbers)


FACTS = (near_limit, grows, in_each_step, retried)
