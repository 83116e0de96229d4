"""Overlap copies and kernels by spreading the same work over four streams.

The program (kernels/overlap.cu) has N floats in pinned memory. It cuts them
into chunks and, chunk by chunk, copies to the device, runs the kernel
`add_ones` there and copies back; it checks every float on the host. The
variants differ in nothing but the streams:

  one_stream    all chunks in one stream: each operation waits for the last
  four_streams  chunk i in stream i mod 4: operations of different streams may
                run at the same time

One sample, `pipeline`, is the time on the host from the first call to the end
of cudaDeviceSynchronize. The kernel adds 1 to each float 2048 times, which is
meant to take about as long as the copy of a chunk on a GPU like the H200; on
others one of the two may dominate.

What to look for in nsyswrap's output:

* Program against Kernel Med + Copy Med, which are sums over one pipeline. In
  one_stream it is at least their sum: the device does one thing at a time. In
  four_streams it is less: copies in, kernels and copies out run side by side,
  as far as the GPU has a copy engine for each direction.
* The best that overlap can reach is the longest of the three: all copies in,
  all kernels, all copies out. Where one of them dominates, overlap hides the
  other two, and no number of streams takes off more.
* Kernel Med and Copy Med themselves do not fall from one_stream to
  four_streams: overlap makes no operation faster. They may rise, since what
  runs side by side shares the device, its memory and the link.
* Launches (one per chunk) and CUDA API calls are the same in both. Copies and
  launches return before they have run, and the host waits in one place,
  cudaDeviceSynchronize: Sync Med.

Three things undo the overlap: pageable memory, for which cudaMemcpyAsync makes
the host wait; the default stream, for which the streams wait unless they were
made with cudaStreamNonBlocking, as here; and too large chunks, for the first
copy in and the last copy out have nothing to run beside. Chunks too small cost
more in launches than they hide: try --chunks. The last line on stdout is the
result as JSON, times in microseconds. --build compiles and does nothing else,
and --built runs what that printed.
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
VARIANTS = ("one_stream", "four_streams")
NEEDS = ("nvcc", "gpu")
LOOK_FOR = (
    "the kernels and copies of a pipeline take about as long in both, but only in four_streams Program is "
    "less than Kernel Med + Copy Med: there they run side by side."
)
COUNTS = {
    "n": (1, 1 << 24, "floats"),
    "chunks": (4, 8, "chunks they are cut into"),
    "warmup": (0, 2, "untimed pipelines"),
    "iterations": (1, 10, "timed pipelines"),
}


def build(options: argparse.Namespace) -> str:
    """Compile the program and return its path."""
    return str(compile_cuda(kernels_dir() / "overlap.cu", arch=options.arch))


def measure(options: argparse.Namespace) -> NoReturn:
    """Become the program, which copies, computes, checks and times."""
    become(options.built, chosen(options, VARIANTS), counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("overlap", parser.parse_args(), measure, build))
