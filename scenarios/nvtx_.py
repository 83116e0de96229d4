"""Mark what a program does with everything that NVTX has, and find it again.

The Python package nvtx annotates an epoch of STEPS steps, which two threads
work on:

  ranges       push/pop, three levels deep: `epoch`, `step 0` and so on, and in
               each step `forward` and `backward`
  domains      `train` and `io` besides the default domain. A domain has its own
               names, its own categories, and its own stack of ranges
  threads      a reader fetches the batches in its own ranges (`read`)
  start/end    `batch 0` and so on. The thread that requests a batch starts its
               range, and the reader ends it. These ranges overlap, which
               push/pop ranges cannot do. `run` is around everything
  marks        `step done`, `end of epoch`: a point in time, not a range
  categories   `maths`, `disk`: a kind of work, in any range of a domain
  names        `wait` is in two domains, and `évaluation ✓` is not ASCII

The variants differ in the work inside the ranges:

  host     only busy loops and sleeps. It needs no GPU, and no package but nvtx
  kernels  PyTorch: a copy to the GPU in `read`, one kernel in `forward`, and
           one in `backward`

What to look for in nsyswrap's output:

* nvtx_phases has the push/pop ranges of kernels by name, with the work launched
  in each. A launch counts in every range around it on the thread that made it.
  `epoch` includes the launches of its steps, and none of the reader's.
* Its names have no domain, so the two `wait`s are one row. nsys' own nvtx_sum
  writes domain:name, `train:wait` and `io:wait`.
* A kernel belongs to the range that launched it, not to the range that was open
  while it ran. `forward` ends when its kernel is queued. The samples of
  `forward` and `backward` in the result measure only that time, too.
* NVTX_EVENTS in the export has more than nvtx_phases: marks (eventType 34),
  start/end ranges (60; push/pop are 59) with the thread that ended the range
  (endGlobalTid), and the names of domains (75) and of categories (33). In
  Python use `capture.events("nvtx")`.
* "expected" in the last line on stdout, which is JSON: the number of ranges and
  marks that were made, in total and by kind, domain and name. A capture of the
  whole run has all of them.

nsys up to 2024.2 records nothing of the package nvtx 0.2.12 and newer. Use
`nvtx<0.2.12` with these versions. If NVTX_DISABLE is set, the package creates
no events. If nsys does not trace nvtx, it records none.

A range costs little without nsys and more under it, most at its first use. Use
ranges for work of many microseconds, not for every call.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from nsyswrap.base.errors import Unavailable
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform, summarize
from nsyswrap.record.in_program.torch_extension import import_torch

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from nsyswrap.record.in_program.script import Timing

# The runner reads these literals without importing this file.
VARIANTS = ("host", "kernels")
NEEDS = ("nvtx",)
VARIANT_NEEDS = {"kernels": ("torch", "gpu")}
LOOK_FOR = (
    "In 'kernels' the ranges forward and backward have one launch each, and Program is the time of that "
    "launch. The kernel may run after its range has ended. 'host' has the same ranges without GPU work."
)
COUNTS = {"steps": (1, 3, "steps of the epoch")}
SEED = 11

_ELEMENTS = 1 << 20
_BUSY_LOOPS = 20_000
_DISK_S = 0.002


class Marker:
    """Creates NVTX events and counts them by kind, domain and name."""

    def __init__(self, nvtx: ModuleType) -> None:
        self._nvtx = nvtx
        self._made: list[tuple[str, str, str]] = []  # both threads append, which is atomic

    @contextmanager
    def span(self, name: str, domain: str | None = None, category: str | None = None) -> Iterator[None]:
        """Keep a push/pop range open."""
        self._made.append(("push_pop", domain or "", name))
        with self._nvtx.annotate(name, domain=domain, category=category):
            yield

    def start(self, name: str, domain: str | None = None) -> object:
        """Start a start/end range and return its handle."""
        self._made.append(("start_end", domain or "", name))
        return self._nvtx.start_range(name, domain=domain)

    def end(self, handle: object) -> None:
        """End a start/end range. Any thread may do this."""
        self._nvtx.end_range(handle)

    def mark(self, name: str, domain: str | None = None) -> None:
        """Create a mark."""
        self._made.append(("marks", domain or "", name))
        self._nvtx.mark(name, domain=domain)

    def expected(self) -> dict[str, Any]:
        """Return the number of events by kind, and by kind, domain and name. The default domain is ""."""
        kinds = Counter(kind for kind, _, _ in self._made)
        names = [
            {"kind": kind, "domain": domain, "name": name, "count": count}
            for (kind, domain, name), count in Counter(self._made).items()
        ]
        return {**kinds, "names": names}


class Work(NamedTuple):
    """The work inside the ranges. Each function takes the result of the previous one."""

    read: Callable[[], Any]
    forward: Callable[[Any], Any]
    backward: Callable[[Any], Any]
    evaluate: Callable[[Any], Any]


def host_work() -> Work:
    """Return work that runs only on the host."""

    def loop(*_: object) -> int:
        return sum(range(_BUSY_LOOPS))

    return Work(loop, loop, loop, loop)


def kernels_work(torch: ModuleType, marker: Marker) -> Work:
    """Return work for the GPU, after checking its results."""
    generator = torch.Generator().manual_seed(SEED)
    batch, weight = (torch.rand(_ELEMENTS, generator=generator) for _ in range(2))
    weight_gpu = weight.cuda()
    work = Work(batch.cuda, lambda x: x * weight_gpu, lambda x: x + weight_gpu, lambda x: x.cpu())
    with marker.span("check"):
        result = work.evaluate(work.backward(work.forward(work.read())))
        # Exactly: one IEEE operation at a time rounds alike on every device.
        torch.testing.assert_close(result, batch * weight + weight, rtol=0, atol=0)
    return work


def fetch(marker: Marker, work: Work, batch_range: object) -> Any:  # noqa: ANN401 - a tensor, or a number
    """Read a batch on the reader's thread and end the range that its request started."""
    with marker.span("read", domain="io", category="disk"):
        with marker.span("wait", domain="io"):
            time.sleep(_DISK_S)
        batch = work.read()
    marker.end(batch_range)
    return batch


def train(marker: Marker, reader: ThreadPoolExecutor, work: Work, steps: int) -> dict[str, list[float]]:
    """Run the epoch. Return the seconds of each `forward` and `backward`."""
    samples: dict[str, list[float]] = {"forward": [], "backward": []}
    batch_ranges = [marker.start(f"batch {step}", domain="io") for step in range(steps)]
    pending = [reader.submit(fetch, marker, work, batch_range) for batch_range in batch_ranges]
    for step, batch in enumerate(pending):
        with marker.span(f"step {step}"):
            with marker.span("wait", domain="train"):
                values = batch.result()
            for operator, operation in (("forward", work.forward), ("backward", work.backward)):
                with marker.span(operator, category="maths"):
                    start = time.perf_counter()
                    values = operation(values)
                    samples[operator].append(time.perf_counter() - start)
        marker.mark("step done", domain="train")
    with marker.span("évaluation ✓", domain="train"):
        work.evaluate(values)
    return samples


def run(variant: str, marker: Marker, work: Work, steps: int) -> list[Timing]:
    """Run one variant and return its timings."""
    whole = marker.start("run")
    with ThreadPoolExecutor(max_workers=1) as reader, marker.span("epoch"):
        samples = train(marker, reader, work, steps)
    marker.mark("end of epoch")
    marker.end(whole)
    return [
        summarize(variant, operator, seconds, span=operator, launches=steps)
        for operator, seconds in samples.items()
    ]


def import_nvtx() -> ModuleType:
    """Return the package nvtx. Raises Unavailable."""
    try:
        return importlib.import_module("nvtx")
    except ImportError as error:
        raise Unavailable(
            f"the package nvtx cannot be imported ({error})", "install it with pip install 'nvtx<0.2.12'"
        ) from error


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the variants and return their timings and the expected NVTX events."""
    marker = Marker(import_nvtx())
    works, measured_on = {}, {}
    for variant in chosen(options, VARIANTS):
        if variant == "host":
            works[variant] = host_work()
        else:
            torch = import_torch()
            works[variant], measured_on = kernels_work(torch, marker), platform(torch)
    timings = [
        timing for variant, work in works.items() for timing in run(variant, marker, work, options.steps)
    ]
    return {**counted(options, COUNTS), **measured_on, "timings": timings, "expected": marker.expected()}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS, builds=False)
    sys.exit(main("nvtx", parser.parse_args(), measure))
