"""PyTorch's profilers inside a program, which use CUPTI as nsys does: opening one, reading what it saw."""

from __future__ import annotations

import statistics
import warnings
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from types import ModuleType

STAYS_OFF = "PyTorch's profiler stays off under nsys: both use CUPTI"
_NO_KERNELS = ("Memcpy", "Memset")  # how a profiler calls what else ran on the GPU
_OPERATORS = "aten::"  # PyTorch's own, as a profiler calls them


class Profiled(TypedDict):
    """What a profiler saw of the launches it was open for.

    ``kernels``: those that ran on the GPU; ``kernel_median_us``: their median duration, None without any.
    ``cpu_ops``: PyTorch's operators (``aten::...``) on the CPU, also those that an operator called. CUDA API
    calls, such as cudaLaunchKernel, are neither.
    """

    launches: int
    kernels: int
    cpu_ops: int
    kernel_median_us: float | None


def torch_profiler(torch: ModuleType, **options: Any) -> Any:  # noqa: ANN401 - no types without torch
    """Return a torch.profiler of CPU and GPU, to be opened with ``with``."""
    # It warns of what it does between cycles to everybody, also where there is one.
    warnings.filterwarnings("ignore", "Warning: Profiler clears events at the end of each cycle")
    activity = torch.profiler.ProfilerActivity
    return torch.profiler.profile(activities=[activity.CPU, activity.CUDA], **options)


def kernels_us(torch: ModuleType, profiler: Any) -> list[float]:  # noqa: ANN401 - no types without torch
    """Return the duration in µs of each kernel a profiler saw, in order of start."""
    seen = [
        event
        for event in _events(profiler)
        if event.device_type == torch.autograd.DeviceType.CUDA
        # A step of a schedule shows on the GPU as well, as if it were a kernel.
        and not getattr(event, "is_user_annotation", False)  # unknown to old releases
        and not event.name.startswith(_NO_KERNELS)
    ]
    seen.sort(key=lambda event: event.time_range.start)
    return [event.time_range.elapsed_us() for event in seen]


def read(torch: ModuleType, profiler: Any, launches: int) -> Profiled:  # noqa: ANN401 - no types without torch
    """Return what a torch.profiler.profile or a torch.autograd.profiler.profile saw, once it is closed."""
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
    # torch.profiler's is a wrapper around one of torch.autograd.profiler's.
    return profiler.events() if hasattr(profiler, "events") else profiler.function_events
