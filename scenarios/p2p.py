"""Copy from one GPU to another directly, staged by the driver, and via the host.

The program (kernels/p2p.cu) copies blocks of 4 KiB to 64 MiB from the memory of
GPU 0 to that of GPU 1, checks on the host what arrived, and times each copy on
the host, from the call to the end of the synchronise after it. The variants are
three ways for the same bytes:

  direct  cudaMemcpyPeerAsync with peer access enabled in both directions
          (cudaDeviceEnablePeerAccess): over NVLink or PCI Express
  staged  cudaMemcpyPeerAsync without peer access: the driver takes the bytes
          through the host's memory
  host    the program does that itself: a copy into pinned memory, a wait, and a
          copy out of it

Where the two GPUs cannot reach each other's memory, direct is refused with exit
status 69, as is all of it with a single GPU. The operator names the block:
`copy 1 MiB`; 1 MiB is 1024 KiB, and --most bounds the blocks in KiB.

What to look for in nsyswrap's output:

* Program of the large blocks: direct is bounded by the link between the GPUs,
  staged and host by the link to the host, which the bytes cross twice. host
  crosses it one way after the other; the driver can cut a block up and do both
  at once, so staged may come out ahead of host.
* Program of the small blocks is latency in all three: one call and one wait in
  direct and staged, two of each in host. Copy Med beside it says how little of
  that is the copy.
* Memory operations: in direct the copies stand as Peer-to-Peer, in host as
  Device-to-Host and Host-to-Device, one of each. The copies of the checks, to
  GPU 0, to GPU 1 and from it, are among them in every variant; the bandwidth is
  the sum of the bytes over the sum of the durations, so the largest blocks
  decide it.
* staged in nsys (2025.3, driver 580, H200): one Device-to-Host and one
  Host-to-Device row a copy, each with all its bytes, but with the time of one
  piece of them. Copy Med therefore stops growing at 1 MiB, and the bandwidth of
  these rows is more than any link has. Program is right.
* CUDA API calls: one cudaMemcpyPeerAsync per copy in direct and in staged. Call
  and result are the same: only cudaDeviceEnablePeerAccess, once per direction,
  tells them apart. Forget it, and the program is right but slow: nothing
  complains.

The last line on stdout is the result as JSON, times in microseconds; `device`
is GPU 0. --build compiles and does nothing else, and --built runs what that
printed.
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
VARIANTS = ("direct", "staged", "host")
NEEDS = ("nvcc", "gpus")
LOOK_FOR = (
    "direct is as fast as the link between the GPUs, staged and host cross the link to the host twice; "
    "small blocks are latency in all three; of a large staged copy nsys times one piece, so go by Program."
)
COUNTS = {
    "most": (4, 65536, "largest block in KiB"),
    "warmup": (0, 2, "untimed copies of each block"),
    "iterations": (1, 10, "timed copies of each block"),
}


def build(options: argparse.Namespace) -> str:
    """Compile the program and return its path."""
    return str(compile_cuda(kernels_dir() / "p2p.cu", arch=options.arch))


def measure(options: argparse.Namespace) -> NoReturn:
    """Become the program, which copies, checks and times."""
    become(options.built, chosen(options, VARIANTS), counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("p2p", parser.parse_args(), measure, build))
