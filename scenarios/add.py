"""Add two vectors in CUDA managed memory with a kernel launched in four ways.

The program (kernels/add.cu) fills two vectors of N floats on the host. It adds
them on the GPU with one kernel, `add`, and checks the sum on the host. The
variants differ only in the launch:

  1x1       one thread adds all N elements
  1x256     one block of 256 threads
  grid      blocks of 256 threads, one thread per element
  prefetch  like grid, after both vectors were prefetched to the GPU

What to look for in nsyswrap's output:

* The duration of the kernel `add`. It falls from 1x1 over 1x256 to grid with
  the number of threads, but not in proportion. The vectors are managed memory
  that the host wrote last. So the kernel's first access to each page is a page
  fault, and the kernel waits until the page has migrated. This time counts as
  kernel time, and in grid it is most of it.
* In prefetch the kernel finds its pages on the GPU. It takes about as long as
  GPU memory needs to move 12 bytes per element. The migration is not gone:
  cudaMemPrefetchAsync does it before the kernel, in the same stream and in
  large pieces. So also compare the time from the first prefetch to the end of
  the kernel.
* Memory operations, if nsys records those of managed memory. In grid there are
  many small host-to-device transfers during the kernel, in prefetch a few large
  ones before it. In every variant there are transfers back to the host when the
  host reads the sum.
* CUDA API calls. The launch returns at once, and the host waits for the kernel
  in cudaDeviceSynchronize. The first CUDA call, cudaMallocManaged, also creates
  the CUDA context. This often takes longer than everything else.

This applies to GPUs that migrate managed pages on a fault: Pascal and later,
on Linux. A GPU that shares memory coherently with its host need not migrate
pages. A GPU without concurrent managed access refuses the prefetch.

A program runs on the GPUs that it has code for. Machine code (sm_80) is for one
kind of GPU and later minor versions of it. PTX (compute_90) is for all later
ones: their driver compiles it when the program starts, and keeps the result in
~/.nv/ComputeCache. With neither, a launch fails with "no kernel image is
available". So the program gets machine code for each kind of GPU here, and PTX
of the newest, by nvcc's -gencode. For GPUs elsewhere --arch sm_80,sm_90 is

  nvcc -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
       -gencode arch=compute_90,code=compute_90 ...

`cuobjdump --list-elf --list-ptx PROGRAM` shows what a program has. With
CUDA_FORCE_PTX_JIT=1 in the environment the driver takes the PTX alone: if the
program runs then, later GPUs can run it, too.

The script compiles the program if needed, and then replaces itself with it.
Under nsys the CUDA process therefore has the process id of the script. To keep
the compiler out of the profile, compile first with --build and pass the printed
path with --built.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nsyswrap.record.in_program.script import become, counted, main, make_parser
from nsyswrap.record.nvcc import compile_cuda
from nsyswrap.record.scenarios import kernels_dir

if TYPE_CHECKING:
    import argparse
    from typing import NoReturn

# The runner reads these literals without importing this file.
VARIANTS = ("1x1", "1x256", "grid", "prefetch")
NEEDS = ("nvcc", "gpu")
LOOK_FOR = (
    "Kernel time falls from '1x1' to 'grid' with the number of threads. In 'prefetch' the kernel no "
    "longer waits for its pages to migrate."
)
COUNTS = {"n": (1, 1 << 20, "elements of each vector")}


def build(options: argparse.Namespace) -> str:
    """Compile the program and return its path."""
    return str(compile_cuda(kernels_dir() / "add.cu", arch=options.arch))


def measure(options: argparse.Namespace) -> NoReturn:
    """Replace this process with the program, which adds and checks in one variant."""
    become(options.built, [options.variant], counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, only="grid", counts=COUNTS)
    parser.add_argument("--arch", help="GPU architectures to compile for, such as sm_80,sm_90")
    sys.exit(main("add", parser.parse_args(), measure, build))
