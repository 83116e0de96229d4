"""Let heat spread on a ring with MPI, OpenMP and CUDA in one program.

The program (kernels/hybrid.cu) runs as two MPI ranks, each with half of the
ring. In each step a rank gives its neighbours the cells next to them
(MPI_Isend, MPI_Irecv, MPI_Waitall), and then computes its own cells anew. One
sample is one step of one rank; a barrier comes before each. The variants differ
in who computes:

  threads  OpenMP threads of the rank; no GPU is used at all
  gpu      the kernel `diffuse`; of what lies on the GPU only the edge cells are
           copied to the host and back in a step. The ranks share the GPU where
           there is but one

In both, the threads of rank 0 heat the ring, MPI_Send deals it out, and in the
end MPI_Gather collects it for the check. MPI_Allreduce adds up the heat, which
must not have changed. The operator names the rank: `rank 0`.

nsys records both with --trace=cuda,nvtx,osrt,mpi,openmp, around mpirun: all
processes are in one capture.

What to look for in nsyswrap's output:

* mpi_event_sum: point-to-point, waiting and collective calls, by name; of
  MPI_Waitall one event for each request. Time in it and in MPI_Barrier is
  mostly waiting: a rank that is late shows in the times of the others.
* openmp_sum: parallel regions, and beside them what threads waited for: the
  barrier at the end of each region, and the critical section.
* osrt_sum: calls of the operating system's libraries, by mpirun and MPI more
  than by the program (here those of 10 us and more, without backtraces, to keep
  the capture small). Those that sleep have the longest times: poll, epoll_wait,
  a condition.
* gpu: Kernel Med is little of Program, and so are the four copies of eight
  bytes. Where the ranks share a GPU, it works for one process at a time, and
  Queue Med and Sync Med are the wait for one's turn (NVIDIA's MPS avoids it).
  An MPI that knows CUDA would save the copies to the host and back.

gcc's OpenMP runtime has no interface for profilers (OMPT): nsys records OpenMP
of LLVM's or Intel's runtime only, both of which also run what gcc compiled. The
script looks for one (`pip install intel-openmp`, Debian's package libomp5) and
preloads it; without one it says so, and the capture has no OpenMP events.

Preloading is also the safe way: linked with LLVM's runtime, a program never
ends under nsys 2023.4 with osrt and openmp; and of OpenMP tasks it cannot make
a report. There are none here.

The last line on stdout is the result as JSON, times in microseconds. --build
compiles and does nothing else, and --built runs what that printed.
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

# Read by the runner as literals, without importing this file.
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
    "threads launches nothing; in gpu a step is one short kernel, and Program mostly calls and waiting: for "
    "the other rank, and for a shared GPU; mpi_event_sum, openmp_sum and osrt_sum show the host's side."
)
COUNTS = {
    "cells": (1, 1 << 18, "cells of each rank"),
    "threads": (1, 2, "OpenMP threads of each rank"),
    "warmup": (0, 2, "untimed steps"),
    "iterations": (1, 10, "timed steps"),
}

_NO_RUNTIME = "hybrid: no OpenMP events without LLVM's or Intel's runtime (pip install intel-openmp)"
_FLAGS = ("-ccbin", "mpicxx", "-Xcompiler", "-fopenmp,-DOMPI_SKIP_MPICXX")  # without MPI's old C++ bindings
_LAUNCHER = ("mpirun", "-n", "2")
# Open MPI's options, which other MPIs ignore. It runs as root in containers, two ranks need not have a core
# each, and a rank bound to one core would have all its threads on it.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "true",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}


def openmp_runtime() -> str | None:
    """Return an OpenMP runtime that tells profilers what it does, LLVM's or Intel's; None without one."""
    of_pip = Path(sys.prefix, "lib", "libiomp5.so")  # where `pip install intel-openmp` puts it
    return str(of_pip) if of_pip.exists() else find_library("omp") or find_library("iomp5")


def preload(library: str) -> None:
    """Load a library into what this process becomes: first, with all that is preloaded already."""
    os.environ["LD_PRELOAD"] = ":".join(filter(None, (library, os.environ.get("LD_PRELOAD"))))


def build(options: argparse.Namespace) -> str:
    """Compile the program and return its path."""
    return str(compile_cuda(kernels_dir() / "hybrid.cu", arch=options.arch, flags=_FLAGS))


def measure(options: argparse.Namespace) -> NoReturn:
    """Become mpirun, whose ranks exchange, compute, check and time."""
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
