"""Open PyTorch's profilers in a program and read their results. They use CUPTI, as nsys does."""

from __future__ import annotations

import re
import statistics
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypedDict

from nsyswrap.record.in_program.script import keep_text

STAYS_OFF = "PyTorch's profiler stays off under nsys: both use CUPTI"
_NO_KERNELS = ("Memcpy", "Memset")  # prefixes of GPU operations that are not kernels
_OPERATORS = "aten::"  # prefix of PyTorch's own operators
_SHOWN = ("Name", "Self CPU", "Self CUDA", "CUDA time avg", "# of Calls", "Input Shapes")
_ROWS, _NAME_WIDTH = 8, 40


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
