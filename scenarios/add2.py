"""Time a CUDA vector addition on the host, with and without synchronising.

A PyTorch extension (kernels/add2) adds two float32 vectors of N elements with
the kernel `add2_kernel`; PyTorch's own `a + b` does the same. Each is timed with
time.perf_counter in four ways, which differ in where they wait for the device
(torch.cuda.synchronize):

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
  in first the next iteration waits for it before its start stamp, so it is in no
  sample. In none the host runs ahead of the device. Given many iterations of a
  kernel slower than its launch, the launch queue fills up, and then a launch
  has to wait for a kernel to finish.
* second agrees with both here, since the device is idle before the first
  iteration and each iteration leaves it idle. That is thanks to the synchronise
  after the warm-up: otherwise the first sample would include whatever work was
  still queued.

What to look for in nsyswrap's output:

* The duration of the kernels is about the same in all four: the way of timing
  changes what the host sees, not what the device does.
* NVTX ranges. `add2 <sync> <operator>` holds all timed iterations of one block,
  `<sync>/<operator>` one iteration: both stamps and its synchronises. The
  warm-ups are in `warm-up <sync>/<operator>`, the comparison of the results in
  `check`. A kernel belongs to the range that launched it, and in first and none
  it may end after that range did.
* CUDA API calls: cudaDeviceSynchronize twice per iteration in both, once in
  first and second, never in none.
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

import argparse
import json
import statistics
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypedDict

from nsyswrap.errors import NsyswrapError
from nsyswrap.scenario import kernels_dir
from nsyswrap.torch_extension import build, import_torch, load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from torch import Tensor

# Read by the runner as literals, without importing this file.
VARIANTS = ("both", "first", "second", "none")
VARIANT_OPTION = "--sync"
NEEDS = ("torch", "ninja", "nvcc", "gpu")
LOOK_FOR = (
    "first and none never wait for the kernel, so Python times the launch alone; "
    "both and second time the launch, the kernel and the wait for it."
)

SEED = 2

Operation: TypeAlias = "Callable[[], Tensor]"


class Instruments(NamedTuple):
    """What the timing loop takes from its surroundings."""

    clock: Callable[[], float]
    """Returns the time in seconds."""
    synchronise: Callable[[], None]
    """Waits until the device is idle."""
    span: Callable[[str], AbstractContextManager[object]]
    """Keeps an NVTX range of this name open for the length of a `with` block."""


class Timing(TypedDict):
    """The samples of one block and their summary, in microseconds; `range`: the NVTX range of each."""

    sync: str
    operator: str
    range: str
    median_us: float
    mean_us: float
    min_us: float
    max_us: float
    samples_us: list[float]


def whole_number(least: int) -> Callable[[str], int]:
    """Return an argument type: an integer of at least `least`."""

    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return value

    parse.__name__ = "whole number"  # argparse names it: "invalid whole number value"
    return parse


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of this script's command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        VARIANT_OPTION,
        choices=VARIANTS,
        action="append",
        help="where to synchronise; may be repeated (default: all four in turn)",
    )
    numbers = (
        ("--n", 1, 1 << 20, "elements of each vector"),
        ("--warmup", 0, 10, "untimed iterations before each block"),
        ("--iterations", 1, 10, "timed iterations of each block"),
    )
    for option, least, default, meaning in numbers:
        parser.add_argument(
            option,
            type=whole_number(least),
            default=default,
            metavar="COUNT",
            help=f"{meaning} (default: %(default)s)",
        )
    parser.add_argument("--build", action="store_true", help="build the extension only, and print its path")
    parser.add_argument("--built", metavar="LIBRARY", help="load what --build printed: build nothing")
    return parser


def chosen_variants(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the variants asked for, each once and in the order given; all if none was."""
    return tuple(dict.fromkeys(given or VARIANTS))


def time_iteration(operation: Operation, sync: str, instruments: Instruments) -> float:
    """Run `operation` once and return the time between the two stamps in seconds."""
    wait_before_start = sync in {"both", "first"}
    wait_before_stop = sync in {"both", "second"}
    clock, synchronise = instruments.clock, instruments.synchronise
    if wait_before_start:
        synchronise()
    start = clock()
    operation()
    if wait_before_stop:
        synchronise()
    return clock() - start


def time_block(  # noqa: PLR0913
    operation: Operation,
    sync: str,
    operator: str,
    *,
    warmup: int,
    iterations: int,
    instruments: Instruments,
) -> list[float]:
    """Warm `operation` up, then return one sample in seconds for each timed iteration."""
    with instruments.span(f"warm-up {sync}/{operator}"):
        for _ in range(warmup):
            operation()
    instruments.synchronise()
    samples = []
    with instruments.span(f"add2 {sync} {operator}"):
        for _ in range(iterations):
            with instruments.span(f"{sync}/{operator}"):
                samples.append(time_iteration(operation, sync, instruments))
    # Outside of the range: work left over here must not leak into the next block.
    instruments.synchronise()
    return samples


def summarise(sync: str, operator: str, samples_s: Sequence[float]) -> Timing:
    """Return the samples, given in seconds, and their summary in microseconds."""
    # Rounded to a nanosecond: the clock resolves no more.
    samples_us = [round(1e6 * sample, 3) for sample in samples_s]
    return {
        "sync": sync,
        "operator": operator,
        "range": f"{sync}/{operator}",
        "median_us": round(statistics.median(samples_us), 3),
        "mean_us": round(statistics.fmean(samples_us), 3),
        "min_us": min(samples_us),
        "max_us": max(samples_us),
        "samples_us": samples_us,
    }


def measure(
    operations: dict[str, Operation], options: argparse.Namespace, instruments: Instruments
) -> list[Timing]:
    """Time every operator in every variant asked for and return one summary for each."""
    return [
        summarise(
            sync,
            operator,
            time_block(
                operation,
                sync,
                operator,
                warmup=options.warmup,
                iterations=options.iterations,
                instruments=instruments,
            ),
        )
        for sync in chosen_variants(options.sync)
        for operator, operation in operations.items()
    ]


def report(options: argparse.Namespace, platform: dict[str, str], timings: Sequence[Timing]) -> str:
    """Return the result as one line of JSON; `platform` has the keys device, torch and cuda."""
    result = {
        "scenario": "add2",
        "n": options.n,
        "warmup": options.warmup,
        "iterations": options.iterations,
        **platform,
        "timings": timings,
    }
    return json.dumps(result)


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


def run(torch: ModuleType, extension: ModuleType, options: argparse.Namespace) -> str:
    """Check, measure, check again; return the result as one line of JSON."""
    span = torch.cuda.nvtx.range
    operations, expected = make_operations(torch, extension, options.n)
    with span("check"):
        check(torch, operations, expected)
    instruments = Instruments(time.perf_counter, torch.cuda.synchronize, span)
    timings = measure(operations, options, instruments)
    with span("check"):
        check(torch, operations, expected)
    device, cuda = torch.cuda.get_device_name(), torch.version.cuda
    return report(options, {"device": device, "torch": torch.__version__, "cuda": cuda}, timings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the extension and, unless only `--build` is asked for, run the experiment."""
    options = make_parser().parse_args(arguments)
    try:
        torch = import_torch()
        folder = kernels_dir() / "add2"
        extension = load("add2", options.built) if options.built else build(torch, folder)
    except NsyswrapError as error:
        print("add2:", "; ".join(filter(None, (str(error), error.hint))), file=sys.stderr)
        return error.exit_code
    print(extension.__file__ if options.build else run(torch, extension, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
