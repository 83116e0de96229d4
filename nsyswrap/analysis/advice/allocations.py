"""Facts on recorded GPU memory: near the limit of the GPU, growing over the steps, allocated in each step.

None of them names a cost: memory that is held takes no time, and idle time around allocating calls is a
finding of its own. Without recorded allocations nothing is said. A framework that keeps freed memory for
itself holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.allocation_ranges import NO_RANGE, allocation_ranges
from nsyswrap.analysis.arrays.groups import rows_by
from nsyswrap.analysis.finding import Finding, FindingKind
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
from nsyswrap.capture.intervals import NOTHING

_NEAR = 0.9  # of the memory of the GPU
_LEAST_STEPS = 6  # fewer show no trend
_PARTS = 3  # of the steps, in each of which memory has to grow
_LEAST_GROWTH = 0.01  # of what is held at first
_MOST_OTHERS = 0.1  # of the steps: those that do not allocate, or do not free it again
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
    """Return the range, or module, with most of these bytes; empty if that is in none."""
    some = held.of(np.flatnonzero(chosen))
    if not len(some.row):
        return ""
    number, paths = allocation_ranges(context.capture.whole, some)
    sums = np.zeros(len(paths), np.int64)
    np.add.at(sums, number, some.bytes)
    path = paths[int(sums.argmax())]
    return "" if path == NO_RANGE else path


def _fact(context: AdviceContext, kind: FindingKind, **numbers: Any) -> Finding:
    return context.fact(kind, NOTHING, "gpu_memory", **numbers)


FACTS = (near_limit, grows, in_each_step)
