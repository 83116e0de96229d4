"""Open PyTorch's profilers in a program and read their results. They use CUPTI, as nsys does."""

from __future__ import annotations

import statistics
import warnings
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from types import ModuleType

STAYS_OFF = "PyTorch's profiler stays off under nsys: both use CUPTI"
_NO_KERNELS = ("Memcpy", "Memset")  # prefixes of GPU operations that are not kernels
_OPERATORS = "aten::"  # prefix of PyTorch's own operators


class Profiled(TypedDict):
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


def kernels_us(torch: ModuleType, profiler: Any) -> list[float]:  # noqa: ANN401 - no types without torch
    """Return the duration in µs of each recorded kernel, in order of start."""
    kernels = [
        event
        for event in _events(profiler)
        if event.device_type == torch.autograd.DeviceType.CUDA
        # A step of a schedule is an event on the GPU as well, but no kernel.
        and not getattr(event, "is_user_annotation", False)  # missing in old releases
        and not event.name.startswith(_NO_KERNELS)
    ]
    kernels.sort(key=lambda event: event.time_range.start)
    return [event.time_range.elapsed_us() for event in kernels]


def read(torch: ModuleType, profiler: Any, launches: int) -> Profiled:  # noqa: ANN401 - no types without torch
    """Return the results of a closed torch.profiler.profile or torch.autograd.profiler.profile."""
    cpu = torch.autograd.DeviceType.CPU
    kernels = kernels_us(torch, profiler)
    operators = [e for e in _events(profiler) if e.device_type == cpu and e.name.startswith(_OPERATORS)]
    return {
        "launches": launches,
        "kernels": len(kernels),
        "cpu_ops": len(operators),
        "kernel_median_us": round(statistics.median(kernels), 3) if kernels else None,
    }


def _events(profiler: Any) -> Any:  # noqa: ANN401 - no types without torch
    # torch.profiler.profile wraps torch.autograd.profiler.profile, which has function_events.
    return profiler.events() if hasattr(profiler, "events") else profiler.function_events
