"""Launch a tiny kernel 20000 times in a row, and see what a launch costs.

The program (kernels/storm.cu) launches the kernel `tick` --launches times in
one stream, as fast as the host can. The kernel is one thread that increments a
counter. The counter shows that every launch ran. The variants differ in the
time that the kernel takes:

  empty  it only increments the counter
  busy   it first spins for about 20 us of clock cycles

One sample is one whole storm: the time from the first launch call to the return
of the last one, without the wait for the kernels. The previous storm has ended
by then, so each storm starts with an empty queue. Time stamps and NVTX ranges
around every single launch would cost as much as the launch.

What to look for in nsyswrap's output:

* empty: API Med over Launches is the host time of one launch, and Program is
  little more than API Med. If the kernels take less time (Kernel Med), the GPU
  waits for the host. A program made of tiny kernels looks like this. Fuse the
  kernels, or record them into a CUDA graph.
* busy: the kernels are longer than the launches, so the host runs ahead until
  the launch queue is full. From then on cudaLaunchKernel returns only when
  there is room again. API Med comes close to Kernel Med, and the average
  cudaLaunchKernel to the duration of one kernel. This is not launch overhead:
  the program could not have ended earlier. With few launches the queue never
  fills, and busy launches as fast as empty.
* To distinguish the two, compare the time of the calls with that of the
  kernels. If API Med is well above Kernel Med, the program is launch-bound. If
  they are about equal, the calls may just be waiting for the queue.
* Queued Med is the sum of the queue times of all launches of a storm. They
  overlap, so it can be many times the duration of the storm. It is large in
  busy, where it only means that the host was ahead.

nsys adds time to every launch. To quote the cost of a launch, use a run without
nsys. The spin is counted in clock cycles at the GPU's peak rate, so the kernel
takes longer at a lower rate. The last line on stdout is the result as JSON.
Times are those of whole storms, in microseconds. The `launches` of a timing
counts those of all storms, warm-up included. --build only compiles, and --built
runs the program that --build printed.
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

# The runner reads these literals without importing this file.
VARIANTS = ("empty", "busy")
NEEDS = ("nvcc", "gpu")
LOOK_FOR = (
    "In 'empty' API Med is the cost of the launches. In 'busy' the launch queue fills up, and "
    "cudaLaunchKernel waits until kernels have ended. API Med grows towards Kernel Med, but this wait is "
    "not overhead."
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
    """Replace this process with the program, which launches, counts and times."""
    become(options.built, chosen(options, VARIANTS), counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("storm", parser.parse_args(), measure, build))
