"""Let heat spread on a ring with MPI, OpenMP and CUDA in one program.

The program (kernels/hybrid.cu) runs as two MPI ranks, each with half of the
ring. In each step a rank sends its edge cells to its neighbors (MPI_Isend,
MPI_Irecv, MPI_Waitall), and then updates its own cells. One sample is one step
of one rank. A barrier precedes each step. The variants differ in what computes:

  threads  OpenMP threads of the rank, without a GPU
  gpu      the kernel `diffuse`. The cells stay on the GPU, and a step copies
           only the edge cells to the host and back. If there is only one GPU,
           the ranks share it

In both variants the threads of rank 0 heat the ring, and MPI_Send distributes
it. At the end MPI_Gather collects it for the check. MPI_Allreduce adds up the
heat, which must be unchanged. The operator names the rank: `rank 0`.

nsys records both with --trace=cuda,nvtx,osrt,mpi,openmp, around mpirun. All
processes are in one capture.

What to look for in nsyswrap's output:

* mpi_event_sum: point-to-point, waiting and collective calls by name.
  MPI_Waitall has one event for each request. Time in it and in MPI_Barrier is
  mostly waiting: a late rank shows in the times of the other ranks.
* openmp_sum: parallel regions, and the waits of threads, which are the barrier
  at the end of each region and the critical section.
* osrt_sum: calls of the operating system's libraries. mpirun and MPI make more
  of them than the program. To keep the capture small, only calls of 10 us and
  more are recorded, without backtraces. Calls that sleep take longest: poll,
  epoll_wait, condition variables.
* gpu: Kernel Med is a small part of Program, and so are the four copies of
  eight bytes. If the ranks share a GPU, it works for one process at a time.
  Queued Med and Sync Med then include waiting for the other process (NVIDIA's
  MPS avoids this). A CUDA-aware MPI would save the copies to the host and back.

The OpenMP runtime of gcc has no interface for profilers (OMPT). nsys records
OpenMP only with the runtimes of LLVM and Intel, which also run programs
compiled with gcc. The script looks for one of them and preloads it. To install
one, use `pip install intel-openmp` or the Debian package libomp5. Without one
the script prints a message, and the capture has no OpenMP events.

Preloading is also safer than linking. Linked with the runtime of LLVM, a
program never ends under nsys 2023.4 with osrt and openmp, and nsys cannot make
a report of OpenMP tasks. This program has no tasks.

The last line on stdout is the result as JSON, times in microseconds. --build
only compiles, and --built runs the program that --build printed.
"""

from __future__ import annotations

import os
import sys
from ctypes.util import find_library
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.record.in_program.script import become, chosen, counted, main, make_parser
from nsyswrap.record.nvcc import compile_cuda
from nsyswrap.record.scenarios import kernels_dir

if TYPE_CHECKING:
    import argparse
    from typing import NoReturn

# The runner reads these literals without importing this file.
VARIANTS = ("threads", "gpu")
NEEDS = ("nvcc", "mpi", "gpu")
NSYS = {
    "threads": {
        "trace": "cuda,nvtx,osrt,mpi,openmp",
        "extra": ("--osrt-threshold=10000", "--osrt-backtrace-threshold=1000000000"),
    },
    "gpu": {
        "trace": "cuda,nvtx,osrt,mpi,openmp",
        "extra": ("--osrt-threshold=10000", "--osrt-backtrace-threshold=1000000000"),
    },
}
LOOK_FOR = (
    "'threads' launches nothing. In 'gpu' a step is one short kernel: Program is mostly API calls and "
    "waiting. mpi_event_sum, openmp_sum and osrt_sum show the work on the host."
)
COUNTS = {
    "cells": (1, 1 << 18, "cells of each rank"),
    "threads": (1, 2, "OpenMP threads of each rank"),
    "warmup": (0, 2, "untimed steps"),
    "iterations": (1, 10, "timed steps"),
}

_NO_RUNTIME = "hybrid: no OpenMP events: install LLVM's or Intel's runtime (pip install intel-openmp)"
# OMPI_SKIP_MPICXX leaves out the old C++ bindings of MPI.
_FLAGS = ("-ccbin", "mpicxx", "-Xcompiler", "-fopenmp,-DOMPI_SKIP_MPICXX")
_LAUNCHER = ("mpirun", "-n", "2")
# Options of Open MPI, which other MPIs ignore. They allow root, as in containers, and more ranks than cores.
# They also turn off binding, because the threads of a bound rank would all share one core.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "true",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}


def openmp_runtime() -> str | None:
    """Return the OpenMP runtime of LLVM or Intel, which support profilers, or None."""
    of_pip = Path(sys.prefix, "lib", "libiomp5.so")  # from `pip install intel-openmp`
    return str(of_pip) if of_pip.exists() else find_library("omp") or find_library("iomp5")


def preload(library: str) -> None:
    """Add a library to LD_PRELOAD, before the libraries that are already there."""
    os.environ["LD_PRELOAD"] = ":".join(filter(None, (library, os.environ.get("LD_PRELOAD"))))


def build(options: argparse.Namespace) -> str:
    """Compile the program and return its path."""
    return str(compile_cuda(kernels_dir() / "hybrid.cu", arch=options.arch, flags=_FLAGS))


def measure(options: argparse.Namespace) -> NoReturn:
    """Replace this process with mpirun, whose ranks exchange cells, compute, check and time."""
    if runtime := openmp_runtime():
        preload(runtime)
    else:
        print(_NO_RUNTIME, file=sys.stderr)
    for name, value in OPEN_MPI.items():
        os.environ.setdefault(name, value)
    become(options.built, chosen(options, VARIANTS), counted(options, COUNTS), _LAUNCHER)


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    parser.add_argument("--arch", help="GPU architecture to compile for, such as sm_90")
    sys.exit(main("hybrid", parser.parse_args(), measure, build))
