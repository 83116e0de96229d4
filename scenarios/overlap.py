"""Overlap copies and kernels by spreading the same work over four streams.

The program (kernels/overlap.cu) has N floats in pinned memory, cut into chunks.
It copies each chunk to the GPU, runs the kernel `add_ones` on it and copies it
back. It checks every float on the host. The variants differ only in the
streams:

  one_stream    all chunks in one stream: each operation waits for the last one
  four_streams  chunk i in stream i mod 4: operations of different streams may
                run at the same time

One sample, `pipeline`, is the host time from the first call to the end of
cudaDeviceSynchronize. The kernel adds 1 to each float 2048 times. On a GPU like
the H200 this takes about as long as the copy of a chunk. On other GPUs kernels
or copies may dominate.

What to look for in nsyswrap's output:

* Program against Kernel Med + Copy Med, which are sums over one pipeline. In
  one_stream Program is at least their sum: the GPU does one thing at a time. In
  four_streams Program is less. Copies in, kernels and copies out overlap, if
  the GPU has a copy engine for each direction.
* The best possible time is the longest of the three: all copies in, all
  kernels, or all copies out. If one of them dominates, overlap hides the other
  two, and more streams do not help.
* Kernel Med and Copy Med themselves do not fall from one_stream to
  four_streams. Overlap makes no operation faster. They may even rise, because
  overlapped operations share the GPU, its memory and the link.
* Launches (one per chunk) and CUDA API calls are the same in both. Copies and
  launches return before they have run. The host waits in one place,
  cudaDeviceSynchronize (Sync Med).

Three things prevent overlap. With pageable memory cudaMemcpyAsync blocks the
host. The default stream synchronizes with other streams, unless these were
created with cudaStreamNonBlocking, as they are here. With too large chunks the
first copy in and the last copy out overlap with nothing. Too small chunks cost
more launch time than they hide: try --chunks.

The last line on stdout is the result as JSON, times in microseconds. --build
only compiles, and --built runs the program that --build printed.
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
VARIANTS = ("one_stream", "four_streams")
NEEDS = ("nvcc", "gpu")
LOOK_FOR = (
    "The kernels and copies of a pipeline take about as long in both variants. Only in 'four_streams' is "
    "Program less than Kernel Med + Copy Med: they overlap."
)
COUNTS = {
    "n": (1, 1 << 24, "elements of the vector"),
    "chunks": (4, 8, "number of chunks"),
    "warmup": (0, 2, "untimed pipelines"),
    "iterations": (1, 10, "timed pipelines"),
}


def build(options: argparse.Namespace) -> str:
    """Compile the program and return its path."""
    return str(compile_cuda(kernels_dir() / "overlap.cu", arch=options.arch))


def measure(options: argparse.Namespace) -> NoReturn:
    """Replace this process with the program, which copies, computes, checks and times."""
    become(options.built, chosen(options, VARIANTS), counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("overlap", parser.parse_args(), measure, build))
