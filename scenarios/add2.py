"""Time a CUDA vector addition on the host, with and without synchronising.

A PyTorch extension (kernels/add2) adds two float32 vectors of N elements with
the kernel `add2_kernel`; PyTorch's own `a + b` does the same. Each is timed on
the host in four ways, which differ in where they wait for the device
(nsyswrap.measure takes the stamps, torch.cuda.synchronize waits):

  both    before the start stamp and before the stop stamp
  first   before the start stamp only
  second  before the stop stamp only
  none    nowhere

A launch is asynchronous: it returns when the kernel is queued, not when it has
run. Hence what the samples mean:

* both measures the launch, the kernel and the wait for it, from an idle device.
  For a short kernel that is mostly launch and wait: expect much more than the
  duration of the kernel that nsys records.
* first and none measure the launch alone. The kernel runs after the stop stamp;
  in first the next iteration waits for it before its start stamp, so it is in
  no sample. In none the host runs ahead of the device. Given many iterations of
  a kernel slower than its launch, the launch queue fills up, and then a launch
  has to wait for a kernel to finish.
* second agrees with both here, since the device is idle before the first
  iteration and each iteration leaves it idle. That is thanks to the synchronise
  after the warm-up.

--queued leaves that synchronise out, and with it the warm-up's work in the
queue. It matters where the kernel outlasts its launch: with

  --n 16777216 --warmup 100 --queued

a kernel takes about 50 microseconds and a launch less than 10, so that most of
the warm-up is still to be run when the first iteration starts. In second that
iteration waits for all of it, and its sample is dozens of times too long; the
later ones are right. In none every iteration starts while the device is at
older work, and ends before its own. both and first wait before their start
stamp: it changes nothing for them.

What to look for in nsyswrap's output:

* The duration of the kernels is about the same in all four: the way of timing
  changes what the host sees, not what the device does.
* NVTX ranges. `add2 <sync> <operator>` holds all timed iterations of one block,
  `<sync>/<operator>` what one of them times: from just before its start stamp
  to just after its stop stamp. The synchronise before the start stamp is not
  in it. The warm-ups are in `warm-up <sync>/<operator>`, the comparison of the
  results in `check`. A kernel belongs to the range that launched it, and in
  first and none it may end after that range did. A mark after each range holds
  its sample.
* Whether a range has the work that it launched in it, and nothing else. In both
  and second it has (complete). In first and none nobody waits: at the default N
  the kernel takes about as long as Python's way to the stop stamp, and either
  may come first. From --n 16777216 on the kernel is always the later one: first
  is launch only; so is the first iteration of none, and the next ones start
  while its kernel runs (mixed). With --queued the first one of second includes
  earlier work, and all of none are mixed.
* CUDA API calls: cudaDeviceSynchronize twice per iteration in both, once in
  first and second, never in none. Beyond that after each warm-up (not with
  --queued) and after each block.
* The operators: `cuda` writes into a vector that is there already, `torch`
  allocates its result, from PyTorch's cache once warm, so both launch a single
  kernel per iteration. Their launches differ more than their kernels.

Tracing makes every launch slower: the samples of a run without nsys are the
ones to quote. The last line on stdout is the result as JSON, times in
microseconds. The extension is built before anything is measured, and only if
it was not built before; --build does nothing else, and --built loads what that
printed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from nsyswrap import measure as stopwatch
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform, summarise
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

# Read by the runner as literals, without importing this file.
VARIANTS = ("both", "first", "second", "none")
VARIANT_OPTION = "--sync"
NEEDS = ("torch", "ninja", "nvcc", "gpu")
LOOK_FOR = (
    "first and none never wait for the kernel, so Python times the launch alone; "
    "both and second time the launch, the kernel and the wait for it."
)
COUNTS = {
    "n": (1, 1 << 20, "elements of each vector"),
    "warmup": (0, 10, "untimed iterations before each block"),
    "iterations": (1, 10, "timed iterations of each block"),
}
SEED = 2

Operation: TypeAlias = "Callable[[], Tensor]"


class Instruments(NamedTuple):
    """What the timing loop takes from its surroundings."""

    synchronise: Callable[[], None]
    """Waits until the device is idle."""
    span: Callable[[str], AbstractContextManager[object]]
    """Keeps an NVTX range of this name open for the length of a `with` block."""


def time_iteration(operation: Operation, sync: str, span: str, synchronise: Callable[[], None]) -> float:
    """Run `operation` once, and return the seconds between the two stamps that the range `span` holds."""
    if sync in {"both", "first"}:
        synchronise()
    wait = synchronise if sync in {"both", "second"} else None
    with stopwatch(span, synchronise=wait) as measured:
        operation()
    return measured.host_ns * 1e-9


def time_block(  # noqa: PLR0913
    operation: Operation,
    sync: str,
    operator: str,
    *,
    warmup: int,
    iterations: int,
    queued: bool,
    instruments: Instruments,
) -> Timing:
    """Warm `operation` up, then take one sample for each iteration; `queued`: do not wait in between."""
    with instruments.span(f"warm-up {sync}/{operator}"):
        for _ in range(warmup):
            operation()
    if not queued:
        instruments.synchronise()
    span, wait = f"{sync}/{operator}", instruments.synchronise
    with instruments.span(f"add2 {sync} {operator}"):
        samples = [time_iteration(operation, sync, span, wait) for _ in range(iterations)]
    # Outside of the range: work left over here must not leak into the next block.
    instruments.synchronise()
    return summarise(sync, operator, samples, span=span, launches=warmup + iterations)


def time_all(
    operations: dict[str, Operation], options: argparse.Namespace, instruments: Instruments
) -> list[Timing]:
    """Time every operator in every variant asked for."""
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
    """Return the operators, and their right result: float32, shape (n,), on the CPU."""
    # Made on the CPU: the profile then holds no kernels but the ones compared.
    generator = torch.Generator().manual_seed(SEED)
    a_cpu, b_cpu = (torch.rand(n, generator=generator, dtype=torch.float32) for _ in range(2))
    a, b = a_cpu.cuda(), b_cpu.cuda()
    # Any element that the extension leaves out stays NaN and fails the check.
    c: Tensor = torch.full((n,), float("nan")).cuda()
    add2 = extension.add2

    def cuda() -> Tensor:
        add2(c, a, b)
        return c

    return {"cuda": cuda, "torch": lambda: a + b}, a_cpu + b_cpu


def check(torch: ModuleType, operations: dict[str, Operation], expected: Tensor) -> None:
    """Raise AssertionError unless every operator gives exactly `expected`."""
    # Exactly: one IEEE addition rounds alike on every device.
    for operation in operations.values():
        torch.testing.assert_close(operation().cpu(), expected, rtol=0, atol=0)


def build(_: argparse.Namespace) -> str:
    """Build the extension and return its library."""
    return str(build_extension(import_torch(), kernels_dir() / "add2").__file__)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Check, measure, check again."""
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
