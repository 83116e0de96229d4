"""Time one operation with each of the clocks that people use.

The operation is `a * b`, elementwise over N floats on the GPU. This is one
kernel, which at the default N runs several times as long as its launch takes.
Each clock takes the same samples:

  sync      time.perf_counter around the operation and a synchronize: the
            launch, the kernel, and the wait for it. Right for the time that a
            caller has to wait, from an idle GPU. Too long for the kernel alone
  nosync    time.perf_counter around the operation, no synchronize: the launch.
            Right for the host time. Does not measure the kernel
  event     a torch.cuda.Event before and one after, all read at the end: the
            time in the stream between the two. Right for work that is queued
            back to back, as in a training loop
  profiler  torch.profiler: the durations of the kernels themselves, in place of
            the samples. Right for the kernel. Does not measure the launch

What to look for in nsyswrap's output:

* Kernel Med is the same under every clock. The clocks differ in Program, the
  median of their samples. In sync it is longer than the kernel, in event a
  little longer. In nosync it is the launch (API Med) and Python's own time.
* The samples of event, in the line of JSON. The first start event is recorded
  on an idle stream. It completes before the kernel is launched, so the sample
  includes the launch. Then the host runs ahead of the GPU. Each start event
  waits behind the previous kernel, and the backlog hides the launches. With a
  kernel shorter than its launch (--n 1024) there is never a backlog. Then every
  sample includes a launch, however precise it looks.
* The table that profiler prints: a row for each operator, call and kernel.
  aten::mul has the shapes of its inputs (record_shapes). Its Self CUDA is the
  time of its kernels, which have a row of their own, too. Compare CUDA time avg
  of that row, a mean, with Kernel Med. Activity Buffer Request is the
  profiler's own work.
* CUDA API calls. cudaEventRecord (or cudaEventRecordWithFlags) occurs twice per
  iteration in event, and only there. cudaDeviceSynchronize occurs once per
  iteration in sync, and otherwise only before and after all samples.
* An NVTX range for each sample, as in `event/a * b`. The warm-up has its own
  range. In nosync and event the kernel may run after its range has ended.

Event.elapsed_time has a resolution of about half a microsecond. To time a
kernel of a few microseconds, put many launches between two events, or use
another clock.

profiler keeps what people look at in the folder `scenario-files` of its run
folder (--keep): trace.json of export_chrome_trace, for ui.perfetto.dev, and
key_averages.txt, the same table with all its columns.

torch.profiler and nsys both use CUPTI and cannot work in one process. Tried
with PyTorch 2.11 under nsys 2025.3, torch.profiler printed
CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED. It had all operators, and none
of the seven kernels or of the calls that launched them. nsys had them all. So
`nsyswrap scenarios run` runs profiler without nsys. If profiler is run under
nsys, it is timed with a synchronize instead and named sync in the result.

Before anything is measured, the product is compared with the CPU's; it must be
exactly equal. The last line on stdout is the result as JSON, times in
microseconds. Tracing makes every launch slower, so quote the samples of a run
without nsys.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nsyswrap.record.in_program.clocks import keep_averages, time_operation, usable
from nsyswrap.record.in_program.script import add_keep_option, chosen, counted, main, make_parser, platform
from nsyswrap.record.in_program.torch_extension import import_torch

if TYPE_CHECKING:
    import argparse
    from types import ModuleType

    from nsyswrap.record.in_program.clocks import Operation

# The runner reads these literals without importing this file.
VARIANTS = ("sync", "nosync", "event", "profiler")
VARIANT_OPTION = "--clock"
NEEDS = ("torch", "gpu")
ALONE = ("profiler",)
KEEPS = ("profiler",)
CROSS_CHECK = True
LOOK_FOR = (
    "Kernel Med is the same in all variants. In 'sync' Program includes launch and wait, in 'event' all "
    "work between the two records. In 'profiler' Program is about Kernel Med, in 'nosync' the launch "
    "alone."
)
COUNTS = {
    "n": (1, 1 << 24, "elements of each vector"),
    "warmup": (0, 5, "untimed iterations before each block"),
    "iterations": (1, 20, "timed iterations of each block"),
}
SEED = 5
OPERATOR = "a * b"


def make_product(torch: ModuleType, n: int) -> Operation:
    """Check the result of the operation and return the operation. Raises AssertionError."""
    generator = torch.Generator().manual_seed(SEED)
    a_cpu, b_cpu = (torch.rand(n, generator=generator) for _ in range(2))
    a, b = a_cpu.cuda(), b_cpu.cuda()
    with torch.cuda.nvtx.range("check"):
        # Exact, because one IEEE multiplication rounds the same way on every device.
        torch.testing.assert_close((a * b).cpu(), a_cpu * b_cpu, rtol=0, atol=0)
    return lambda: a * b


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Check the operation, then time it with every requested clock."""
    torch = import_torch()
    clocks = [usable(clock) for clock in chosen(options, VARIANTS)]
    product = make_product(torch, options.n)

    def show(profiler: Any) -> None:  # noqa: ANN401 - no types without torch
        print(f"{keep_averages(profiler, options.keep, 'key_averages.txt')}\n")
        if options.keep:
            profiler.export_chrome_trace(str(options.keep / "trace.json"))

    timings = [
        time_operation(
            torch,
            product,
            variant=clock,
            operator=OPERATOR,
            warmup=options.warmup,
            iterations=options.iterations,
            clock=clock,
            profiled=show,
        )
        for clock in clocks
    ]
    return {**counted(options, COUNTS), **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, option=VARIANT_OPTION, counts=COUNTS, builds=False)
    add_keep_option(parser)
    sys.exit(main("events", parser.parse_args(), measure))
