"""Add two vectors in CUDA managed memory with a kernel launched in four ways.

The program (kernels/add.cu) fills two vectors of N floats on the host, adds
them on the device with one kernel, `add`, and checks the sum on the host. Its
variants differ in nothing but the launch:

  1x1       one thread adds all N elements
  1x256     one block of 256 threads
  grid      as many blocks of 256 threads as give each element a thread
  prefetch  the grid, after both vectors were moved to the device

What to look for in nsyswrap's output:

* The duration of the kernel `add`. From 1x1 over 1x256 to grid it falls with
  the number of threads, but not in proportion: the vectors are managed memory
  that the host wrote last, so the kernel's first touch of each page faults and
  waits until the page has migrated. These waits count as kernel time, and in
  the grid they are most of it.
* In prefetch the kernel finds its pages on the device and takes about as long
  as the device's memory needs to move the 12 bytes per element. The migration
  is not gone: cudaMemPrefetchAsync does it ahead of the kernel, in the same
  stream and in large pieces. Compare the whole stretch from the first prefetch
  to the end of the kernel as well, not the kernel alone.
* Memory operations, where nsys records those of managed memory: many small
  host-to-device transfers during the kernel in grid, a few large ones before
  it in prefetch; and in every variant transfers back to the host, when the
  host reads the sum after the kernel.
* CUDA API calls: the launch returns at once, and cudaDeviceSynchronize is where
  the host waits for the kernel. The first CUDA call, cudaMallocManaged, also
  pays for the creation of the CUDA context, often more than all the rest.

This holds for a GPU that migrates managed pages on a fault (Pascal and later,
under Linux). One that shares memory coherently with its host need not migrate
them, and one without concurrent managed access refuses the prefetch.

The script compiles the program, unless it did before, and replaces itself with
it: under nsys the CUDA process has the process id of the script. Compile first
with --build, and name what that printed with --built, to keep the compiler out
of the profile.
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

# Read by the runner as literals, without importing this file.
VARIANTS = ("1x1", "1x256", "grid", "prefetch")
NEEDS = ("nvcc", "gpu")
LOOK_FOR = (
    "kernel time falls from 1x1 to grid with the number of threads; what prefetch still takes off it "
    "was the kernel waiting for its pages to migrate."
)
COUNTS = {"n": (1, 1 << 20, "elements of each vector")}


def build(options: argparse.Namespace) -> str:
    """Compile the program and return its path."""
    return str(compile_cuda(kernels_dir() / "add.cu", arch=options.arch))


def measure(options: argparse.Namespace) -> NoReturn:
    """Become the program, which adds and checks in one of its ways."""
    become(options.built, [options.variant], counted(options, COUNTS))


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, only="grid", counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("add", parser.parse_args(), measure, build))
