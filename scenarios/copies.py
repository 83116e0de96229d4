"""Move memory between host and device in five ways, from 4 KiB to 64 MiB.

The program (kernels/copies.cu) moves blocks of memory to the GPU and back, and
checks the contents. It times every move on the host, from the call to the end
of the synchronize after it. The variants differ in how the memory moves:

  pageable  cudaMemcpyAsync from and to pageable host memory: `h2d`, `d2h`
  pinned    the same with page-locked host memory (cudaMallocHost)
  managed   no copy: the kernel `touch` adds 1 to data that the host wrote last,
            so every page migrates on a fault (`touch`). Then the host reads a
            word of every page (`read back`)
  prefetch  cudaMemPrefetchAsync to the GPU (`prefetch`) and back to the host
            (`prefetch back`)
  faults    the same as managed, but nsys records every page fault

pageable and pinned also time a `memset` of the block. The operator names the
block size, as in `h2d 4 KiB`. 1 MiB is 1024 KiB. --most is the largest block in
KiB. Managed blocks are at most 4 MiB.

What to look for in nsyswrap's output:

* Program and Copy Med by operator. The difference is the cost of a call, a
  queue and a wait. In pinned it hardly depends on the size. Small copies are
  all latency, so combine many small copies into one.
* pinned against pageable. The GPU accesses pinned memory directly, and large
  blocks reach the bandwidth of the link. Pageable memory can be paged out at
  any time, so the driver copies it through its own pinned staging buffer. The
  bandwidth is lower, and cudaMemcpyAsync itself takes long (see the CUDA API
  calls): it is not really asynchronous.
* Memory operations of pageable and pinned. The bandwidth is the total bytes
  over the total time, so the largest blocks dominate it. It includes the copies
  of the checks, which are the same in both.
* `memset` moves nothing over the link, so the link does not limit it.
* managed: Kernel Med of `touch` is mostly page faults and migrations inside the
  kernel, not the addition. No API call requested these migrations, so Copy Med
  does not count them. The memory operations list them as Unified Host-to-Device
  and Device-to-Host. They are smaller than in prefetch, and there are more of
  them. `read back` has no kernel, copy or call, but the host waits for pages.
* faults: the export has the page faults, and `nsys stats -r um_total_sum` sums
  them up. Recording them slows the program down, so take times from managed.

The first write to fresh host memory causes page faults as well. So the program
writes all its memory before it times a copy.
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
VARIANTS = ("pageable", "pinned", "managed", "prefetch", "faults")
NEEDS = ("nvcc", "gpu")
NSYS = {"faults": {"um_faults": True}}
LOOK_FOR = (
    "A small copy is mostly call and wait: Program is far above Copy Med. Large copies are faster in "
    "'pinned' than in 'pageable', which uses a staging buffer. In 'managed' the pages migrate while the "
    "kernel runs."
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
    """Replace this process with the program, which moves, checks and times."""
    become(options.built, chosen(options, VARIANTS), counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("copies", parser.parse_args(), measure, build))
