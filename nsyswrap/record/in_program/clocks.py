"""Time one PyTorch operation with one of four common clocks, sample by sample.

    sync      time.perf_counter around the operation and a synchronize: the launch, the kernel and the wait
    nosync    time.perf_counter around the operation alone: the launch
    event     a torch.cuda.Event before and after, read at the end: the time on the stream between them
    profiler  torch.profiler: the kernels themselves

All clocks run the operation equally often. Under nsys torch.profiler stays off, as both use CUPTI.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

from nsyswrap.record.in_program.script import CLOCK_OPTION, Timing, keep_text, summarize, under_nsys

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from torch import Tensor

    Operation: TypeAlias = Callable[[], Tensor]


STAYS_OFF = "PyTorch's profiler stays off under nsys: both use CUPTI"
_NO_KERNELS = ("Memcpy", "Memset")  # prefixes of GPU operations that are not kernels
_OPERATORS = "aten::"  # prefix of PyTorch's own operators
_SHOWN = ("Name", "Self CPU", "Self CUDA", "CUDA time avg", "# of Calls", "Input Shapes")
_ROWS, _NAME_WIDTH = 8, 40


# Open PyTorch's profilers in a program and read their results. They use CUPTI, as nsys does.


class ProfilerResult(TypedDict):
    """What a profiler recorded during a number of launches.

    ``kernels`` counts the kernels on the GPU. ``kernel_median_us`` is their median duration in microseconds,
    None without kernels. ``cpu_ops`` counts PyTorch's operators (``aten::...``) on the CPU, including those
    called by other operators. CUDA API calls such as cudaLaunchKernel count as neither.
    """

    launches: int
    kernels: int
    cpu_ops: int
    kernel_median_us: float | None


def torch_profiler(torch: ModuleType, **options: Any) -> Any:  # noqa: ANN401 - no types without torch
    """Return a torch.profiler of CPU and GPU, for a ``with`` statement."""
    # It warns about the end of each cycle even if there is only one.
    warnings.filterwarnings("ignore", "Warning: Profiler clears events at the end of each cycle")
    activity = torch.profiler.ProfilerActivity
    return torch.profiler.profile(activities=[activity.CPU, activity.CUDA], **options)


def kernels_us(torch: ModuleType, events: Iterable[Any]) -> list[float]:
    """Return the duration in µs of each kernel among a profiler's events, in order of start."""
    kernels = [
        event
        for event in events
        if event.device_type == torch.autograd.DeviceType.CUDA
        # A step of a schedule is an event on the GPU as well, but no kernel.
        and not getattr(event, "is_user_annotation", False)  # missing in old releases
        and not event.name.startswith(_NO_KERNELS)
    ]
    kernels.sort(key=lambda event: event.time_range.start)
    return [event.time_range.elapsed_us() for event in kernels]


def read(torch: ModuleType, events: Sequence[Any], launches: int) -> ProfilerResult:
    """Return what the events of a profiler say of a number of launches."""
    cpu = torch.autograd.DeviceType.CPU
    kernels = kernels_us(torch, events)
    operators = [event for event in events if event.device_type == cpu and event.name.startswith(_OPERATORS)]
    return {
        "launches": launches,
        "kernels": len(kernels),
        "cpu_ops": len(operators),
        "kernel_median_us": round(statistics.median(kernels), 3) if kernels else None,
    }


def keep_averages(profiler: Any, folder: Path | None, name: str) -> str:  # noqa: ANN401 - no types without torch
    """Write the table of a profiler's ``key_averages``, most GPU time first, to a file in ``folder``.

    Return the same rows with the columns of ``_SHOWN`` alone, in PyTorch's own texts; empty without a row.
    """
    averages = profiler.key_averages(group_by_input_shape=True)
    if not averages:
        return ""
    # PyTorch before 2.6 calls the time of the GPU by the name of its kind.
    names = ("self_device_time_total", "self_cuda_time_total")
    by = next((name for name in names if hasattr(averages[0], name)), None)
    whole: str = averages.table(sort_by=by, row_limit=_ROWS, max_name_column_width=_NAME_WIDTH)
    keep_text(folder, name, f"{whole}\n")
    lines = whole.splitlines()
    # A header can be wider than its column, and then those behind it do not stand above theirs.
    headers = re.split(r"\s{2,}", lines[1].strip())
    spans = [slice(*match.span()) for match in re.finditer("-+", lines[0])]
    columns = [(name, span) for name, span in zip(headers, spans, strict=True) if name in _SHOWN]
    body = lines[3 : lines.index(lines[0], 3)]
    cells = [[name for name, _ in columns], *([line[span].strip() for _, span in columns] for line in body)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    return "\n".join(f"{row[0].strip():{widths[0]}}  {'  '.join(row[1:])}".rstrip() for row in rows)


def events_of(profiler: Any) -> Any:  # noqa: ANN401 - no types without torch
    """Return the events of a closed torch.profiler.profile or torch.autograd.profiler.profile."""
    # torch.profiler.profile wraps torch.autograd.profiler.profile, which has function_events.
    return profiler.events() if hasattr(profiler, "events") else profiler.function_events


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
            samples += _host(torch, operation, span, 1, wait=True)
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


_SAMPLERS: dict[str, Callable[[ModuleType, Operation, str, int], list[float]]] = {
    "sync": partial(_host, wait=True),
    "nosync": partial(_host, wait=False),
    "event": _event,
}
