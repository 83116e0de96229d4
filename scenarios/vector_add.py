"""Add two vectors with an extension of one file, bare and under torch.profiler.

The extension (kernels/vector_add/vector_add.cu) adds two float32 vectors of N
elements with the kernel `vector_add_kernel`, into a vector that it allocates.
Every launch is timed on the host, together with the synchronise after it:

  bare            without a profiler; --clock applies to this one alone
  schedule        torch.profiler with a schedule: of nine launches one to wait,
                  one to warm up, seven active
  toggle_neither  torch.profiler records all launches
  toggle_cpu      it leaves the operators out in the middle third of them
  toggle_cuda     it leaves the GPU out there
  toggle_both     it leaves out both

torch.profiler takes what the GPU did from CUPTI, as nsys does, and two of them
in one process get in each other's way. So only bare belongs under nsys: the
others run alone, and leave their profiler off if they find themselves there.

What the profiler saw is in the result as `profiler`: how many `launches` it was
open for, the `kernels` it recorded with their median time, and `cpu_ops`, the
PyTorch operators on the CPU. Here that is one a launch, `aten::empty`, for the
result: a function of an extension is no operator, and the profiler does not
know it.

What to look for in nsyswrap's output:

* schedule: seven kernels of nine launches. In the first launch the profiler is
  off; in the second it is on, but its records are thrown away, and with them
  what starting it cost; the other seven it keeps. profiler.step() after each
  launch is what moves it on.
* toggle_cpu lacks operators, and no kernel; toggle_cuda kernels, and no
  operator; toggle_both both. The calls to CUDA (cudaLaunchKernel) come from
  CUPTI and go with the kernels. PyTorch warns on stderr that kernels and
  operators may no longer match.
* The cost of the profiler: the host's median in toggle_neither beside the one
  in bare, both without nsys: bare run alone, or perf_counter in the table of
  --cross-check. What is toggled off costs less, but for a third of the launches
  only, so look at `samples_us` rather than the median.
* The median of the kernels, beside the one that nsys shows for bare: a kernel
  is not slower because its launch was.

The device must be idle when collection is toggled: a kernel in flight could be
counted on either side. Each launch here is waited for; elsewhere synchronise
first. The result must be exact: one IEEE addition rounds alike everywhere.

The last line on stdout is the result as JSON, times in microseconds. --build
builds the extension and does nothing else; --built loads what that printed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import Unavailable
from nsyswrap.record.in_program.clocks import add_clock_option, time_operation, time_profiled, usable
from nsyswrap.record.in_program.profilers import torch_profiler
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform
from nsyswrap.record.in_program.torch_extension import build as build_extension
from nsyswrap.record.in_program.torch_extension import import_torch, load
from nsyswrap.record.scenarios import kernels_dir

if TYPE_CHECKING:
    import argparse
    from types import ModuleType

    from nsyswrap.record.in_program.clocks import Operation
    from nsyswrap.record.in_program.script import Timing

# Read by the runner as literals, without importing this file.
VARIANTS = ("bare", "schedule", "toggle_neither", "toggle_cpu", "toggle_cuda", "toggle_both")
NEEDS = ("torch", "ninja", "nvcc", "gpu")
ALONE = ("schedule", "toggle_neither", "toggle_cpu", "toggle_cuda", "toggle_both")
CROSS_CHECK = True
LOOK_FOR = (
    "with CUDA toggled off midway torch.profiler misses kernels, with the CPU operators; what it costs the "
    "host shows beside bare in a run without nsys: perf_counter in --cross-check."
)
COUNTS = {
    "n": (1, 1024000, "elements of each vector"),
    "warmup": (0, 10, "untimed launches before each variant"),
    "iterations": (3, 20, "timed launches of each variant but schedule, which takes nine"),
}
SEED = 3

OPERATOR = "vector_add"
PHASES = {"wait": 1, "warmup": 1, "active": 7}
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "toggle_neither": (),
    "toggle_cpu": ("CPU",),
    "toggle_cuda": ("CUDA",),
    "toggle_both": ("CPU", "CUDA"),
}


def time_bare(torch: ModuleType, operation: Operation, options: argparse.Namespace) -> Timing:
    """Time the launches without a profiler, or with the one that --clock asks for."""
    return time_operation(
        torch,
        operation,
        variant="bare",
        operator=OPERATOR,
        warmup=options.warmup,
        iterations=options.iterations,
        clock=usable(options.clock),
    )


def time_schedule(torch: ModuleType, operation: Operation, options: argparse.Namespace) -> Timing:
    """Time one launch for each step of one cycle of the schedule."""
    schedule = torch.profiler.schedule(**PHASES, repeat=1)
    return time_profiled(
        torch,
        operation,
        lambda: torch_profiler(torch, schedule=schedule),
        variant="schedule",
        operator=OPERATOR,
        warmup=options.warmup,
        launches=sum(PHASES.values()),
        after_launch=lambda profiler, _done: profiler.step(),
    )


def time_toggled(
    torch: ModuleType, operation: Operation, variant: str, options: argparse.Namespace
) -> Timing:
    """Time the launches while the profiler leaves some activities out in their middle third."""
    if not hasattr(torch.profiler.profile, "toggle_collection_dynamic"):
        raise Unavailable(f"PyTorch {torch.__version__} cannot toggle its profiler", "install 2.5 or newer")
    left_out = [getattr(torch.profiler.ProfilerActivity, name) for name in LEFT_OUT[variant]]
    off, on = options.iterations // 3, 2 * options.iterations // 3

    def toggle(profiler: Any, done: int) -> None:  # noqa: ANN401 - no types without torch
        if done in (off, on):
            torch.cuda.synchronize()  # no launch may be in flight
            profiler.toggle_collection_dynamic(done == on, left_out)

    return time_profiled(
        torch,
        operation,
        lambda: torch_profiler(torch),
        variant=variant,
        operator=OPERATOR,
        warmup=options.warmup,
        launches=options.iterations,
        after_launch=toggle,
    )


def time_variant(
    torch: ModuleType, operation: Operation, variant: str, options: argparse.Namespace
) -> Timing:
    """Time the launches in one variant."""
    if variant == "bare":
        return time_bare(torch, operation, options)
    if variant == "schedule":
        return time_schedule(torch, operation, options)
    return time_toggled(torch, operation, variant, options)


def build(_: argparse.Namespace) -> str:
    """Build the extension and return its library."""
    return str(build_extension(import_torch(), kernels_dir() / "vector_add").__file__)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Check the sum, then time it in every variant asked for."""
    torch = import_torch()
    vector_add = load("vector_add", options.built).vector_add
    # Made on the CPU: the profile then holds no kernels but the one measured.
    generator = torch.Generator().manual_seed(SEED)
    a_cpu, b_cpu = (torch.rand(options.n, generator=generator, dtype=torch.float32) for _ in range(2))
    a, b = a_cpu.cuda(), b_cpu.cuda()
    with torch.cuda.nvtx.range("check"):
        torch.testing.assert_close(vector_add(a, b).cpu(), a_cpu + b_cpu, rtol=0, atol=0)
    timings = [
        time_variant(torch, lambda: vector_add(a, b), variant, options)
        for variant in chosen(options, VARIANTS)
    ]
    return {**counted(options, COUNTS), **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    add_clock_option(parser)
    sys.exit(main("vector_add", parser.parse_args(), measure, build))
