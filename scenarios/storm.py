"""Launch a tiny kernel 20000 times in a row, and see what a launch costs.

The program (kernels/storm.cu) launches the kernel `tick`, one thread that adds
one to a counter, as fast as the host can, --launches times in one stream, and
checks by the counter that every launch ran. The variants differ in the time the
kernel takes:

  empty  it only counts
  busy   it spins first, for about 20 us of clock cycles

One sample is one whole storm: the launch calls alone, from the first to the
return of the last, without the wait for the kernels. The storm before it has
ended by then, so each begins with an empty queue. A stamp and an NVTX range
around every single launch would measure themselves as much as the launch.

What to look for in nsyswrap's output:

* empty: API Med over Launches is what one launch costs the host, and Program is
  little more than API Med. Where the kernels take less (Kernel Med), the device
  waits for the host: this is what a program made of tiny kernels looks like.
  Fuse them, or record them into a CUDA graph.
* busy: the kernels are longer than the launches, so the launches run ahead of
  the device until its queue is full; from then on cudaLaunchKernel returns only
  when there is room again. API Med comes close to Kernel Med, and among the
  CUDA API calls the average cudaLaunchKernel to the duration of one kernel.
  That is no launch overhead: the program could not have ended earlier. With few
  enough launches the queue never fills, and busy launches as fast as empty.
* How to tell the two apart: the time of the calls against that of the kernels.
  Where API Med is well above Kernel Med, launching is the bottleneck; where the
  two are about equal, the calls may just be waiting.
* Queue Med adds up the waits of all launches of a storm. They overlap, so it
  can be many times the storm's own duration. It is large in busy, where it
  means nothing but that the host was ahead.

nsys adds to every launch: for what launching costs, quote the times of a run
without it. The spin is counted in clock cycles at the GPU's peak rate, so at a
lower rate the kernel is longer. The last line on stdout is the result as JSON:
the times, in microseconds, are those of whole storms, and a timing's `launches`
counts those of all storms, the warm-up's too. --build compiles and does nothing
else, and --built runs what that printed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nsyswrap.record.in_program.script import become, chosen, counted, main, make_parser
from nsyswrap.record.nvcc import compile_cuda
from nsyswrap.record.scenarios import kernels_dir

if TYPE_CHECKING:
    import argparse
    from typing import NoReturn

# Read by the runner as literals, without importing this file.
VARIANTS = ("empty", "busy")
NEEDS = ("nvcc", "gpu")
LOOK_FOR = (
    "in empty API Med is what the launches cost; in busy the launch queue fills up, cudaLaunchKernel waits "
    "until kernels have ended, and API Med grows towards Kernel Med: that wait is no overhead."
)
COUNTS = {
    "launches": (1, 20000, "launches of each storm"),
    "warmup": (0, 1, "untimed storms"),
    "repeat": (1, 3, "timed storms"),
}


def build(options: argparse.Namespace) -> str:
    """Compile the program and return its path."""
    return str(compile_cuda(kernels_dir() / "storm.cu", arch=options.arch))


def measure(options: argparse.Namespace) -> NoReturn:
    """Become the program, which launches, counts and times."""
    become(options.built, chosen(options, VARIANTS), counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("storm", parser.parse_args(), measure, build))
