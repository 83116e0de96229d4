"""Do everything that nsys' expert rules warn of, and then the same work without it.

The program (kernels/rules.cu) has two blocks of words and copies them to the
GPU. The kernel `weigh` multiplies them by weights and counts the words. The
program copies the words back, and checks every word and the count. One sample,
`step`, is all of that, timed on the host:

  wasteful  every call is one that a rule finds, see below. Between copy and
            kernel the host sleeps for 0.6 s. The sleep stands for any reason
            why a host gives the GPU no work: a file, a log, a lock
  careful   each block has its own stream, pinned memory, asynchronous copies
            and memsets, and one event to wait for. There is no sleep

What to look for in nsyswrap's output, with `nsyswrap report RUN -r RULE` or in
`nsys analyze`, where the rules have the same names:

* cuda_memcpy_async: cudaMemcpyAsync of the weights from pageable memory. The
  driver first copies them to a staging buffer, and the call waits for that.
* cuda_memcpy_sync: cudaMemcpy of the blocks, one pageable and one pinned, in
  both directions. The rule ignores copies of up to 64,000 bytes to the GPU:
  these calls return as soon as the driver has its own copy of the data.
* cuda_memset_sync: cudaMemset of pinned memory (the result of the second block)
  and of managed memory (the count). A memset of GPU memory would be
  asynchronous, and the rule would not find it.
* cuda_api_sync: cudaDeviceSynchronize and cudaStreamSynchronize. careful waits
  in cudaEventSynchronize instead. The rule ignores that call, because it waits
  only for the work recorded before the event.
* gpu_gaps: one gap of over 500 ms per step, which is the sleep.
* gpu_time_util: the times in which the GPU was busy less than half of the time.
  It finds some in careful too, between one step and the next, because all of
  careful is over within a millisecond.
* Program. In careful it is less than Copy Med, because the copies of the two
  blocks overlap. In wasteful it is mostly the sleep. A rule finds a call, but
  does not say how much time the call costs.

The check comes after the last step. The last line on stdout is the result as
JSON, times in microseconds. --build only compiles, and --built runs the program
that --build printed.
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
VARIANTS = ("wasteful", "careful")
NEEDS = ("nvcc", "gpu")
LOOK_FOR = (
    "In 'wasteful' each of nsys' CUDA rules has findings. In 'careful' only gpu_time_util has findings, "
    "and Program is less than Copy Med: the copies overlap."
)
COUNTS = {
    "kib": (64, 4096, "size of each of the two blocks in KiB"),
    "warmup": (0, 1, "untimed steps"),
    "iterations": (1, 2, "timed steps"),
}


def build(options: argparse.Namespace) -> str:
    """Compile the program and return its path."""
    return str(compile_cuda(kernels_dir() / "rules.cu", arch=options.arch))


def measure(options: argparse.Namespace) -> NoReturn:
    """Replace this process with the program, which copies, weighs, checks and times."""
    become(options.built, chosen(options, VARIANTS), counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("rules", parser.parse_args(), measure, build))
