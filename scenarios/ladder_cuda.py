"""Make a CUDA kernel faster rung by rung: coalesced, vectorized, shared memory, streams.

The program (kernels/ladder_cuda.cu) multiplies MATRICES matrices of 1024 x 1024
floats by one that stays on the GPU. A step copies each matrix to the GPU,
multiplies it there, and copies the product back. Each variant mends one thing
in the one before:

  naive       threads of a warp take neighboring rows: each reads another line
              of memory
  coalesced   they take neighboring columns: a warp reads one line of memory
  vectorized  a thread computes four columns, and reads them as one float4
  shared      a block keeps tiles in shared memory; a thread computes 4 x 4
              numbers from what it reads there
  streams     the same kernel in four streams: copies run beside kernels

What to look for in nsyswrap's output:

* Step, in the table of the rungs: it falls from rung to rung. Largest Part
  names the kernel of the rung above, and copies on the last rung. Repairs says
  `kernels` where the share of kernels in the step is all that nsys knows.
* Kernel Med falls up to shared, Copy Med never. In streams Kernel Med rises, as
  kernels share the GPU with others. Still the step is shorter than the sum of
  Kernel Med and Copy Med.
* The first lines of `nsyswrap report`: the GPU of naive is busy all the time,
  with one kernel. nsys sees how long a kernel takes, and not why. To see why,
  profile that kernel with Nsight Compute.
* From coalesced on, the first finding is about copies: no kernel runs beside
  them. The last rung repairs that.

The numbers are whole and small, so every sum is exact. Each product is checked
before and after the timing: product times vector must equal matrix times
(matrix times vector), in whole numbers. The last line on stdout is the result
as JSON, times in microseconds. --build only compiles, and --built runs the
program that --build printed.
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
VARIANTS = ("naive", "coalesced", "vectorized", "shared", "streams")
NEEDS = ("nvcc", "gpu")
LADDER = {
    "coalesced": "kernels",
    "vectorized": "kernels",
    "shared": "kernels",
    "streams": "copies_not_overlapped",
}
LOOK_FOR = (
    "Each rung takes less time than the one above. Up to 'shared' the kernel gets faster. In 'streams' it "
    "does not, but the copies run beside it."
)
COUNTS = {
    "matrices": (1, 8, "matrices in a step"),
    "warmup": (0, 2, "untimed steps"),
    "iterations": (1, 10, "timed steps"),
}


def build(options: argparse.Namespace) -> str:
    """Compile the program and return its path."""
    return str(compile_cuda(kernels_dir() / "ladder_cuda.cu", arch=options.arch))


def measure(options: argparse.Namespace) -> NoReturn:
    """Replace this process with the program, which copies, multiplies, checks and times."""
    become(options.built, chosen(options, VARIANTS), counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("ladder_cuda", parser.parse_args(), measure, build))
