"""Copy from one GPU to another directly, staged by the driver, and via the host.

The program (kernels/p2p.cu) copies blocks of 4 KiB to 64 MiB from the memory of
GPU 0 to that of GPU 1, and checks the contents on the host. It times each copy
on the host, from the call to the end of the synchronize after it. The variants
move the same bytes in three ways:

  direct  cudaMemcpyPeerAsync with peer access enabled in both directions
          (cudaDeviceEnablePeerAccess): over NVLink or PCI Express
  staged  cudaMemcpyPeerAsync without peer access: the driver copies through
          host memory
  host    the program copies through host memory itself: a copy into pinned
          memory, a wait, and a copy out of it

If the two GPUs cannot access each other's memory, direct is refused with exit
status 69. With a single GPU all variants are refused. The operator names the
block size, as in `copy 1 MiB`. 1 MiB is 1024 KiB. --most is the largest block
in KiB.

What to look for in nsyswrap's output:

* Program of the large blocks. direct is limited by the link between the GPUs.
  staged and host are limited by the link to the host, which the bytes cross
  twice. host crosses it in one direction after the other. The driver can split
  a block and use both directions at once, so staged may be faster than host.
* Program of the small blocks is latency in all three: one call and one wait in
  direct and staged, two of each in host. Copy Med shows how small the part of
  the copy itself is.
* Memory operations. A copy is one Peer-to-Peer row in direct, and one
  Device-to-Host and one Host-to-Device row in host. Every variant also has the
  copies of the checks: to GPU 0, to GPU 1 and from it. The bandwidth is the
  total bytes over the total time, so the largest blocks dominate it.
* staged in nsys (2025.3, driver 580, H200): each copy has one Device-to-Host
  and one Host-to-Device row. Each row has all the bytes but the time of only
  one piece. So Copy Med stops growing at 1 MiB, and the bandwidth of these rows
  is higher than that of any link. Program is right.
* CUDA API calls: one cudaMemcpyPeerAsync per copy in direct and in staged. The
  call and the result are the same. Only cudaDeviceEnablePeerAccess, once per
  direction, distinguishes them. Without that call the program is correct but
  slow, and no error or warning says so.

The last line on stdout is the result as JSON, times in microseconds; `device`
is GPU 0. --build only compiles, and --built runs the program that --build
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

# The runner reads these literals without importing this file.
VARIANTS = ("direct", "staged", "host")
NEEDS = ("nvcc", "gpus")
LOOK_FOR = (
    "'direct' is as fast as the link between the GPUs. 'staged' and 'host' cross the link to the host "
    "twice. Small blocks are latency in all three variants. For a large 'staged' copy nsys times only one "
    "piece: use Program."
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
    """Replace this process with the program, which copies, checks and times."""
    become(options.built, chosen(options, VARIANTS), counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("p2p", parser.parse_args(), measure, build))
