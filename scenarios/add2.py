"""Time a CUDA vector addition on the host, with and without synchronizing.

A PyTorch extension (kernels/add2) adds two float32 vectors of N elements with
the kernel `add2_kernel`. PyTorch's own `a + b` does the same. Both are timed on
the host in four ways, which differ in where they wait for the GPU.
nsyswrap.measure takes the time stamps, and torch.cuda.synchronize waits:

  both    before the start stamp and before the stop stamp
  first   before the start stamp only
  second  before the stop stamp only
  none    never

A launch is asynchronous: it returns when the kernel is queued, not when it has
run. So the samples mean different things:

* both measures the launch, the kernel and the wait for it, from an idle GPU.
  For a short kernel most of this is launch and wait. Expect much more than the
  kernel duration that nsys records.
* first and none measure only the launch. The kernel runs after the stop stamp.
  In first the next iteration waits for it before its start stamp, so the kernel
  is in no sample. In none the host runs ahead of the GPU. With many iterations
  of a kernel slower than its launch, the launch queue fills up. Then a launch
  has to wait for a kernel to finish.
* second agrees with both here. The GPU is idle before the first iteration, due
  to the synchronize after the warm-up, and each iteration leaves it idle.

--queued leaves out the synchronize after the warm-up, so the work of the
warm-up is still queued. This matters if the kernel takes longer than its
launch. With

  --n 16777216 --warmup 100 --queued

a kernel takes about 50 microseconds and a launch less than 10. So most of the
warm-up has not run when the first iteration starts. In second that iteration
waits for all of it, and its sample is dozens of times too long. The later
samples are right. In none every iteration starts while the GPU runs older work,
and ends before its own kernel runs. both and first wait before their start
stamp, so nothing changes for them.

What to look for in nsyswrap's output:

* The duration of the kernels is about the same in all four. The timing method
  changes what the host measures, not what the GPU does.
* NVTX ranges. `add2 <sync> <operator>` holds all timed iterations of one block.
  `<sync>/<operator>` holds one iteration, from just before its start stamp to
  just after its stop stamp. The synchronize before the start stamp is outside.
  The warm-ups are in `warm-up <sync>/<operator>`, the comparison of the results
  is in `check`. A kernel belongs to the range that launched it. In first and
  none it may end after that range. A mark after each range holds its sample.
* Whether a range contains the work that it launched, and nothing else. In both
  and second it does (complete). In first and none the host does not wait. At
  the default N the kernel takes about as long as Python needs to reach the stop
  stamp, so either may be first. From --n 16777216 on the kernel always ends
  later. Then first is launch only, and so is the first iteration of none. The
  next iterations of none start while a kernel runs (mixed). With --queued the
  first iteration of second includes earlier work, and all of none are mixed.
* CUDA API calls. cudaDeviceSynchronize occurs twice per iteration in both, once
  in first and second, and never in none. It also occurs after each block and,
  without --queued, after each warm-up.
* The operators. `cuda` writes into an existing vector. `torch` allocates its
  result, from PyTorch's cache once warm. So both launch a single kernel per
  iteration. Their launches differ more than their kernels.

Tracing makes every launch slower, so quote the samples of a run without nsys.
The last line on stdout is the result as JSON, times in microseconds. The
extension is built before anything is measured, if it was not built before.
--build only builds it, and --built loads the library that --build printed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from nsyswrap import measure as stopwatch
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform, summarize
from nsyswrap.record.in_program.torch_extension import build as build_extension
from nsyswrap.record.in_program.torch_extension import import_torch, load
from nsyswrap.record.scenarios import kernels_dir

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import ModuleType

    from torch import Tensor

    from nsyswrap.record.in_program.script import Timing

# The runner reads these literals without importing this file.
VARIANTS = ("both", "first", "second", "none")
VARIANT_OPTION = "--sync"
NEEDS = ("torch", "ninja", "nvcc", "gpu")
LOOK_FOR = (
    "'first' and 'none' do not wait for the kernel: the program times the launch alone. 'both' and "
    "'second' time the launch, the kernel and the wait for the kernel."
)
COUNTS = {
    "n": (1, 1 << 20, "elements of each vector"),
    "warmup": (0, 10, "untimed iterations before each block"),
    "iterations": (1, 10, "timed iterations of each block"),
}
SEED = 2

Operation: TypeAlias = "Callable[[], Tensor]"


class Instruments(NamedTuple):
    """The functions that the timing loop calls."""

    synchronise: Callable[[], None]
    """Waits until the GPU is idle."""
    span: Callable[[str], AbstractContextManager[object]]
    """Keeps an NVTX range of this name open during a `with` block."""


def time_iteration(operation: Operation, sync: str, span: str, synchronise: Callable[[], None]) -> float:
    """Run `operation` once and return the seconds between the two stamps, which are in the range `span`."""
    if sync in {"both", "first"}:
        synchronise()
    wait = synchronise if sync in {"both", "second"} else None
    with stopwatch(span, synchronise=wait) as measured:
        operation()
    return measured.host_ns * 1e-9


def time_block(  # noqa: PLR0913 - all of them set the conditions of one measurement
    operation: Operation,
    sync: str,
    operator: str,
    *,
    warmup: int,
    iterations: int,
    queued: bool,
    instruments: Instruments,
) -> Timing:
    """Warm up `operation`, then take one sample per iteration. If `queued`, do not wait in between."""
    with instruments.span(f"warm-up {sync}/{operator}"):
        for _ in range(warmup):
            operation()
    if not queued:
        instruments.synchronise()
    span, wait = f"{sync}/{operator}", instruments.synchronise
    with instruments.span(f"add2 {sync} {operator}"):
        samples = [time_iteration(operation, sync, span, wait) for _ in range(iterations)]
    # Outside the range. Work that is still queued must not delay the next block.
    instruments.synchronise()
    return summarize(sync, operator, samples, span=span, launches=warmup + iterations)


def time_all(
    operations: dict[str, Operation], options: argparse.Namespace, instruments: Instruments
) -> list[Timing]:
    """Time every operator in every requested variant."""
    return [
        time_block(
            operation,
            sync,
            operator,
            warmup=options.warmup,
            iterations=options.iterations,
            queued=options.queued,
            instruments=instruments,
        )
        for sync in chosen(options, VARIANTS)
        for operator, operation in operations.items()
    ]


def make_operations(torch: ModuleType, extension: ModuleType, n: int) -> tuple[dict[str, Operation], Tensor]:
    """Return the operators and their expected result: float32, shape (n,), on the CPU."""
    # Made on the CPU, so that the profile has no kernels but the ones compared.
    generator = torch.Generator().manual_seed(SEED)
    a_cpu, b_cpu = (torch.rand(n, generator=generator, dtype=torch.float32) for _ in range(2))
    a, b = a_cpu.cuda(), b_cpu.cuda()
    # An element that the extension does not write stays NaN and fails the check.
    c: Tensor = torch.full((n,), float("nan")).cuda()
    add2 = extension.add2

    def cuda() -> Tensor:
        add2(c, a, b)
        return c

    return {"cuda": cuda, "torch": lambda: a + b}, a_cpu + b_cpu


def check(torch: ModuleType, operations: dict[str, Operation], expected: Tensor) -> None:
    """Raise AssertionError unless the result of every operator equals `expected` exactly."""
    # Exact, because one IEEE addition rounds the same way on every device.
    for operation in operations.values():
        torch.testing.assert_close(operation().cpu(), expected, rtol=0, atol=0)


def build(_: argparse.Namespace) -> str:
    """Build the extension and return its library."""
    return str(build_extension(import_torch(), kernels_dir() / "add2").__file__)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Check the results, time the operators, and check the results again."""
    torch = import_torch()
    span = torch.cuda.nvtx.range
    operations, expected = make_operations(torch, load("add2", options.built), options.n)
    with span("check"):
        check(torch, operations, expected)
    timings = time_all(operations, options, Instruments(torch.cuda.synchronize, span))
    with span("check"):
        check(torch, operations, expected)
    return {**counted(options, COUNTS), "queued": options.queued, **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, option=VARIANT_OPTION, counts=COUNTS)
    parser.add_argument("--queued", action="store_true", help="do not wait for the warm-up before timing")
    sys.exit(main("add2", parser.parse_args(), measure, build))
