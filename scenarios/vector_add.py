"""Add two vectors with an extension of one file, bare and under torch.profiler.

The extension (kernels/vector_add/vector_add.cu) adds two float32 vectors of N
elements with the kernel `vector_add_kernel`, into a vector that it allocates.
Every launch is timed on the host, together with the synchronize after it:

  bare            without a profiler; --clock applies only to this variant
  schedule        torch.profiler with a schedule of two cycles of five launches:
                  one to wait, one to warm up, three active
  toggle_neither  torch.profiler records all launches
  toggle_cpu      it leaves out the operators in the middle third of them
  toggle_cuda     it leaves out the GPU there
  toggle_both     it leaves out both there

torch.profiler takes the GPU activity from CUPTI, as nsys does. A process can
have one user of CUPTI only (see `nsyswrap scenarios explain events`). So only
bare is meant for nsys. The others run alone, and leave their profiler off if
they are run under nsys, which then sees every launch: ten of ten in schedule.

schedule keeps what people look at in the folder `scenario-files` of its run
folder (--keep), and prints the table of its last cycle:

  tensorboard/          a trace of each cycle, written by on_trace_ready with
                        torch.profiler.tensorboard_trace_handler. TensorBoard
                        with the plugin torch-tb-profiler shows the folder,
                        ui.perfetto.dev a single file
  key_averages-N.txt    key_averages(group_by_input_shape=True).table(sort_by=
                        "self_device_time_total") of cycle N, all columns

The result has the records of the profiler as `profiler`: the number of
`launches` while it was open, the `kernels` it recorded with their median time,
and `cpu_ops`, the PyTorch operators on the CPU. Here that is one per launch,
`aten::empty`, for the result. A function of an extension is not an operator, so
the profiler does not record it.

What to look for in nsyswrap's output:

* schedule: six kernels for ten launches. During the first launch of a cycle
  the profiler is off. During the second it is on, but its records are
  discarded, and the cost of its start with them. It keeps the records of the
  other three. profiler.step() after each launch advances the schedule. At the
  end of a cycle PyTorch calls on_trace_ready, and then forgets the cycle.
* The table of schedule: a row for each operator, call and kernel of one cycle.
  Self CUDA of vector_add_kernel is the sum of its three kernels. ProfilerStep*
  is a step of the schedule, on the CPU and on the GPU. It has the kernel's time
  in full, as the kernel belongs to no operator that could have it.
* toggle_cpu lacks operators but no kernels. toggle_cuda lacks kernels but no
  operators. toggle_both lacks both. The calls to CUDA (cudaLaunchKernel) come
  from CUPTI and are missing together with the kernels. PyTorch warns on stderr
  that kernels and operators may no longer match.
* The cost of the profiler: compare the host median in toggle_neither with that
  in bare, both without nsys. For bare without nsys, run it alone, or read
  perf_counter in the table of --cross-check. Launches with collection off cost
  less, but these are only a third. So look at `samples_us`, not at the median.
* The median of the kernels, compared with nsys' median for bare in the same
  table. Both come from CUPTI, so they agree. A slower launch does not make its
  kernel slower.

The GPU must be idle when collection is toggled. A kernel in flight could be
counted on either side. This script waits for each launch. In other programs
synchronize first. The result must be exact, because one IEEE addition rounds
the same way everywhere.

The last line on stdout is the result as JSON, times in microseconds. --build
only builds the extension, and --built loads the library that --build printed.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import Unavailable
from nsyswrap.record.in_program.clocks import (
    add_clock_option,
    events_of,
    keep_averages,
    time_operation,
    time_profiled,
    torch_profiler,
    usable,
)
from nsyswrap.record.in_program.script import add_keep_option, chosen, counted, main, make_parser, platform
from nsyswrap.record.in_program.torch_extension import build as build_extension
from nsyswrap.record.in_program.torch_extension import import_torch, load
from nsyswrap.record.scenarios import kernels_dir

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from types import ModuleType

    from nsyswrap.record.in_program.clocks import Operation
    from nsyswrap.record.in_program.script import Timing

# The runner reads these literals without importing this file.
VARIANTS = ("bare", "schedule", "toggle_neither", "toggle_cpu", "toggle_cuda", "toggle_both")
NEEDS = ("torch", "ninja", "nvcc", "gpu")
ALONE = ("schedule", "toggle_neither", "toggle_cpu", "toggle_cuda", "toggle_both")
KEEPS = ("schedule",)
CROSS_CHECK = True
LOOK_FOR = (
    "'schedule' records six of ten launches: three in each of two cycles. With CUDA toggled off midway, "
    "torch.profiler misses kernels; with the CPU toggled off, operators. "
    "For its host cost compare 'bare' in a run without nsys: perf_counter in --cross-check."
)
COUNTS = {
    "n": (1, 1024000, "elements of each vector"),
    "warmup": (0, 10, "untimed launches before each variant"),
    "iterations": (3, 20, "timed launches of each variant; schedule always has ten"),
}
SEED = 3

OPERATOR = "vector_add"
PHASES = {"wait": 1, "warmup": 1, "active": 3}
CYCLES = 2
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "toggle_neither": (),
    "toggle_cpu": ("CPU",),
    "toggle_cuda": ("CUDA",),
    "toggle_both": ("CPU", "CUDA"),
}


def time_bare(torch: ModuleType, operation: Operation, options: argparse.Namespace) -> Timing:
    """Time the launches with the clock of --clock, by default without a profiler."""
    return time_operation(
        torch,
        operation,
        variant="bare",
        operator=OPERATOR,
        warmup=options.warmup,
        iterations=options.iterations,
        clock=usable(options.clock),
    )


def time_schedule(torch: ModuleType, operation: Operation, options: argparse.Namespace) -> Mapping[str, Any]:
    """Time one launch per step of the schedule. Each cycle's records are taken before PyTorch drops them."""
    records: list[Any] = []
    traces = options.keep and options.keep / "tensorboard"
    cycles = itertools.count(1)

    def cycle_done(profiler: Any) -> None:  # noqa: ANN401 - no types without torch
        records.extend(events_of(profiler))
        shown = keep_averages(profiler, options.keep, f"key_averages-{(cycle := next(cycles))}.txt")
        if cycle == CYCLES:
            print(f"{shown}\n")
        if traces:
            torch.profiler.tensorboard_trace_handler(str(traces))(profiler)

    schedule = torch.profiler.schedule(**PHASES, repeat=CYCLES)
    timing = time_profiled(
        torch,
        operation,
        lambda: torch_profiler(torch, schedule=schedule, on_trace_ready=cycle_done, record_shapes=True),
        variant="schedule",
        operator=OPERATOR,
        warmup=options.warmup,
        launches=CYCLES * sum(PHASES.values()),
        after_launch=lambda profiler, _done: profiler.step(),
        events=lambda _profiler: records,
    )
    count = len(list(traces.iterdir())) if traces and traces.exists() else 0
    return {**timing, "traces": count}


def time_toggled(
    torch: ModuleType, operation: Operation, variant: str, options: argparse.Namespace
) -> Timing:
    """Time the launches. The profiler leaves out some activities in the middle third."""
    if not hasattr(torch.profiler.profile, "toggle_collection_dynamic"):
        raise Unavailable(
            f"PyTorch {torch.__version__} cannot toggle its profiler", "install PyTorch 2.5 or newer"
        )
    left_out = [getattr(torch.profiler.ProfilerActivity, name) for name in LEFT_OUT[variant]]
    off, on = options.iterations // 3, 2 * options.iterations // 3

    def toggle(profiler: Any, done: int) -> None:  # noqa: ANN401 - no types without torch
        if done in (off, on):
            torch.cuda.synchronize()  # no kernel may be in flight
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
) -> Mapping[str, Any]:
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
    """Check the sum, then time it in every requested variant."""
    torch = import_torch()
    vector_add = load("vector_add", options.built).vector_add
    # Made on the CPU, so that the profile has no kernels but the one measured.
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
    add_keep_option(parser)
    sys.exit(main("vector_add", parser.parse_args(), measure, build))
