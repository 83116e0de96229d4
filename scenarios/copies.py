"""Move memory between host and device in five ways, from 4 KiB to 64 MiB.

The program (kernels/copies.cu) moves blocks of memory to the device and back,
checks what arrived, and times every move on the host, from the call to the end
of the synchronise after it. The variants differ in how the memory moves:

  pageable  cudaMemcpyAsync from and to plain host memory: `h2d`, `d2h`
  pinned    the same with page-locked host memory (cudaMallocHost)
  managed   no copy: the kernel `touch` adds 1 to what the host wrote last, so
            every page migrates on a fault (`touch`); then the host reads a word
            of every page (`read back`)
  prefetch  cudaMemPrefetchAsync to the device (`prefetch`) and back to the host
            (`prefetch back`)
  faults    the same as managed, with nsys recording every page fault

pageable and pinned also time a `memset` of the block. The operator names the
block: `h2d 4 KiB`; 1 MiB is 1024 KiB, and --most bounds the blocks in KiB.
Managed blocks end at 4 MiB.

What to look for in nsyswrap's output:

* Program and Copy Med by operator. What Program has beyond Copy Med is the
  price of a call, a queue and a wait. In pinned it hardly depends on the size:
  small copies are all latency, and many small ones are best made one.
* pinned against pageable. The device reads and writes pinned memory itself, and
  large blocks reach the rate of the link. Pageable memory can be paged out any
  time, so the driver copies it through a pinned staging buffer of its own: the
  rate is lower, and cudaMemcpyAsync itself takes long (CUDA API calls): it is
  asynchronous in name only.
* Memory operations of pageable and pinned: the bandwidth is the sum of the
  bytes over the sum of the durations, so the largest blocks decide it. The
  copies of the checks are in it; they are the same in both.
* `memset` moves nothing over the link, and so is not bounded by it.
* managed: Kernel Med of `touch` is not the addition but the faults and the
  migrations inside the kernel. No API call asked for these, so Copy Med counts
  none: they stand as Unified Host-to-Device and Device-to-Host among the memory
  operations, more and smaller than in prefetch. `read back` has neither kernel
  nor copy nor call, and yet the host waits for its pages.
* faults: the faults are in the export, where `nsys stats -r um_total_sum` sums
  them up. Recording them slows the program down: take times from managed.

A first write to fresh host memory costs page faults of its own, which is why
the program writes all its memory before it times a copy.
The last line on stdout is the result as JSON, times in microseconds. --build
compiles and does nothing else, and --built runs what that printed.
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
VARIANTS = ("pageable", "pinned", "managed", "prefetch", "faults")
NEEDS = ("nvcc", "gpu")
NSYS = {"faults": {"um_faults": True}}
LOOK_FOR = (
    "a small copy is nearly all call and wait (Program far above Copy Med); of large ones pinned is copied "
    "faster than pageable, which goes through a staging buffer; managed memory migrates inside the kernel."
)
COUNTS = {
    "most": (4, 65536, "largest block in KiB"),
    "warmup": (0, 2, "untimed moves of each block"),
    "iterations": (1, 10, "timed moves of each block"),
}


def build(options: argparse.Namespace) -> str:
    """Compile the program and return its path."""
    return str(compile_cuda(kernels_dir() / "copies.cu", arch=options.arch))


def measure(options: argparse.Namespace) -> NoReturn:
    """Become the program, which moves, checks and times."""
    become(options.built, chosen(options, VARIANTS), counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("copies", parser.parse_args(), measure, build))
