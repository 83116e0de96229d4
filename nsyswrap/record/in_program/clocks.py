"""Time one PyTorch operation with one of four common clocks, sample by sample.

    sync      time.perf_counter around the operation and a synchronize: the launch, the kernel and the wait
    nosync    time.perf_counter around the operation alone: the launch
    event     a torch.cuda.Event before and after, read at the end: the time on the stream between them
    profiler  torch.profiler: the kernels themselves

All clocks run the operation equally often. Under nsys torch.profiler stays off, as both use CUPTI.
"""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from nsyswrap.record.in_program.profilers import (
    STAYS_OFF,
    ProfilerResult,
    events_of,
    kernels_us,
    read,
    torch_profiler,
)
from nsyswrap.record.in_program.script import CLOCK_OPTION, Timing, summarize, under_nsys

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import ModuleType
    from typing import TypeAlias

    from torch import Tensor

    Operation: TypeAlias = Callable[[], Tensor]

CLOCKS = ("sync", "nosync", "event", "profiler")


class TimingAndProfile(Timing):
    """A timing with the profiler's results, which are None if the profiler stayed off."""

    profiler: ProfilerResult | None


def add_clock_option(parser: argparse.ArgumentParser) -> None:
    """Add --clock, which ``nsyswrap scenarios run --cross-check`` sets."""
    parser.add_argument(
        CLOCK_OPTION, choices=CLOCKS, default=CLOCKS[0], help="clock to time with (default: %(default)s)"
    )


def usable(clock: str) -> str:
    """Return the clock to use. Under nsys ``sync`` replaces ``profiler``, with a message on stderr."""
    if clock != "profiler" or not under_nsys():
        return clock
    print(f"{STAYS_OFF}; timed with a synchronize instead", file=sys.stderr)
    return "sync"


def time_operation(  # noqa: PLR0913 - the settings of one measurement
    torch: ModuleType,
    operation: Operation,
    *,
    variant: str,
    operator: str,
    warmup: int,
    iterations: int,
    clock: str = "sync",
    profiled: Callable[[Any], object] = lambda _profiler: None,
) -> Timing:
    """Warm ``operation`` up, then take one sample per iteration.

    Each iteration has an NVTX range ``variant/operator``. The warm-up has one range, with ``warm-up`` before
    this name. ``profiled`` is called with the closed profiler of the clock ``profiler``.
    """
    span = f"{variant}/{operator}"
    _warm_up(torch, operation, span, warmup)
    if clock == "profiler":
        samples = _profiler(torch, operation, span, iterations, profiled)
    else:
        samples = _SAMPLERS[clock](torch, operation, span, iterations)
    torch.cuda.synchronize()
    return summarize(variant, operator, samples, span=span, launches=warmup + iterations)


def time_profiled(  # noqa: PLR0913 - the settings of one measurement
    torch: ModuleType,
    operation: Operation,
    open_profiler: Callable[[], AbstractContextManager[Any]],
    *,
    variant: str,
    operator: str,
    warmup: int,
    launches: int,
    after_launch: Callable[[Any, int], object] = lambda _profiler, _done: None,
    events: Callable[[Any], list[Any]] = events_of,
) -> TimingAndProfile:
    """Warm ``operation`` up, then open the profiler and take one ``sync`` sample per launch.

    If the profiler is on, ``after_launch`` is called with it and the number of launches so far.
    ``events`` returns what the closed profiler recorded.
    """
    span = f"{variant}/{operator}"
    _warm_up(torch, operation, span, warmup)
    samples = []
    with _off(variant) if under_nsys() else open_profiler() as profiler:
        for done in range(1, launches + 1):
            samples += _sync(torch, operation, span, 1)
            if profiler:
                after_launch(profiler, done)
    timing = summarize(variant, operator, samples, span=span, launches=warmup + launches)
    return {**timing, "profiler": read(torch, events(profiler), launches) if profiler else None}


def _warm_up(torch: ModuleType, operation: Operation, span: str, times: int) -> None:
    with torch.cuda.nvtx.range(f"warm-up {span}"):
        for _ in range(times):
            operation()
    torch.cuda.synchronize()


def _off(variant: str) -> AbstractContextManager[None]:
    print(f"{variant}: {STAYS_OFF}", file=sys.stderr)
    return nullcontext()


def _sync(torch: ModuleType, operation: Operation, span: str, iterations: int) -> list[float]:
    return _host(torch, operation, span, iterations, wait=True)


def _nosync(torch: ModuleType, operation: Operation, span: str, iterations: int) -> list[float]:
    return _host(torch, operation, span, iterations, wait=False)


def _host(torch: ModuleType, operation: Operation, span: str, iterations: int, *, wait: bool) -> list[float]:
    samples = []
    for _ in range(iterations):
        with torch.cuda.nvtx.range(span):
            start = time.perf_counter()
            operation()
            if wait:
                torch.cuda.synchronize()
            samples.append(time.perf_counter() - start)
    return samples


def _event(torch: ModuleType, operation: Operation, span: str, iterations: int) -> list[float]:
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(iterations)]
    for start, stop in pairs:
        with torch.cuda.nvtx.range(span):
            start.record()
            operation()
            stop.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) * 1e-3 for start, stop in pairs]  # elapsed_time is in ms


def _profiler(
    torch: ModuleType, operation: Operation, span: str, iterations: int, profiled: Callable[[Any], object]
) -> list[float]:
    with torch_profiler(torch, record_shapes=True) as profiler:
        for _ in range(iterations):
            with torch.cuda.nvtx.range(span):
                operation()
        torch.cuda.synchronize()
    kernels = [1e-6 * duration for duration in kernels_us(torch, events_of(profiler))]
    each = len(kernels) // iterations
    if not each or len(kernels) % iterations:
        raise AssertionError(
            f"torch.profiler saw {len(kernels)} kernels in {iterations} iterations of {span}"
        )
    profiled(profiler)
    return [sum(kernels[i : i + each]) for i in range(0, len(kernels), each)]


_SAMPLERS = {"sync": _sync, "nosync": _nosync, "event": _event}
