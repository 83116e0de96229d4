"""Look into one call that launches many kernels: torch.cdist, in two ways.

torch.cdist(a, b) is the distance of every row of a from every row of b: two
matrices of ROWS x COLUMNS float32 numbers in, one of ROWS x ROWS out. PyTorch
has two ways for the Euclidean distance, and the argument compute_mode picks
one:

  mm      use_mm_for_euclid_dist: |x|^2 - 2xy + |y|^2, so that nearly all of the
          work is one matrix product. Around it are the kernels that square and
          sum the rows, put the sums beside the rows, drop what came out below
          zero, and take the root
  direct  donot_use_mm_for_euclid_dist: one kernel that sums (x - y)^2

In Python both are one line. By default PyTorch takes mm as soon as either
matrix has more than 25 rows.

What to look for in nsyswrap's output:

* Launches in the closing table, the launch calls of one `torch.cdist`: one in
  direct, several in mm. Each of them costs CPU time (API Med), so that with
  few rows (--rows 64) mm is mostly launching.
* Kernel Med adds up all kernels of one call. cuda_gpu_kern_sum tells them
  apart: the matrix product, whose name depends on the GPU and on the cuBLAS in
  use, is only one of them, and need not be the longest.
* In mm API Med, Queue Med and Kernel Med do not add up to Program, which times
  the call and a synchronise: while one kernel runs the next ones are launched,
  and wait in the queue.
* A range for each call, `mm/cdist` or `direct/cdist`, is what says that these
  kernels belong together. Nothing in the kernels' names points at cdist in mm.

mm is not as exact. Its error is one of the squares that are subtracted, not
one of the distance: of two points that are far from the origin and near one
another little is left but rounding, and the distance may come out as 0. The
results are compared with the CPU's in float64 before anything is measured,
with E = (COLUMNS + 4) * 2^-23, what rounding can do to a sum of that many
terms: direct to within E of each distance, mm to within 4 * COLUMNS * E of
each squared distance, since all coordinates lie between 0 and 1.

Tracing makes every launch slower: the samples of a run without nsys are the
ones to quote. The last line on stdout is the result as JSON, times in
microseconds.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from nsyswrap.record.in_program.clocks import time_operation
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform
from nsyswrap.record.in_program.torch_extension import import_torch

if TYPE_CHECKING:
    import argparse
    from types import ModuleType

    from torch import Tensor

# Read by the runner as literals, without importing this file.
VARIANTS = ("mm", "direct")
NEEDS = ("torch", "gpu")
LOOK_FOR = (
    "one call of torch.cdist is several launches in mm and a single one in direct (Launches); "
    "API Med is what launching all of them cost."
)
COUNTS = {
    "rows": (1, 2048, "rows of each matrix"),
    "columns": (1, 64, "columns of each matrix"),
    "warmup": (0, 5, "untimed calls before each block"),
    "iterations": (1, 20, "timed calls of each block"),
}
SEED = 3

_COMPUTE_MODES = {"mm": "use_mm_for_euclid_dist", "direct": "donot_use_mm_for_euclid_dist"}


def distances(torch: ModuleType, variant: str, a: Tensor, b: Tensor) -> Tensor:
    """Return the distance of each row of `a` from each of `b`: shape (rows of a, rows of b)."""
    result: Tensor = torch.cdist(a, b, compute_mode=_COMPUTE_MODES[variant])
    return result


def make_points(torch: ModuleType, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return two matrices on the CPU: float32, shape (rows, columns), between 0 and 1."""
    generator = torch.Generator().manual_seed(SEED)
    a, b = (torch.rand(rows, columns, generator=generator) for _ in range(2))
    return a, b


def check(torch: ModuleType, variant: str, result: Tensor, expected: Tensor, columns: int) -> None:
    """Raise AssertionError unless `result` is as near to `expected` (float64) as float32 sums can be."""
    error = (columns + 4) * torch.finfo(torch.float32).eps
    found = result.cpu().double()
    if variant == "direct":
        torch.testing.assert_close(found, expected, rtol=error, atol=0)
    else:
        torch.testing.assert_close(found.square(), expected.square(), rtol=0, atol=4 * columns * error)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Check every variant, then time each."""
    torch = import_torch()
    points = make_points(torch, options.rows, options.columns)
    a, b = (matrix.cuda() for matrix in points)
    expected = distances(torch, "direct", *(matrix.double() for matrix in points))
    variants = chosen(options, VARIANTS)
    with torch.cuda.nvtx.range("check"):
        for variant in variants:
            check(torch, variant, distances(torch, variant, a, b), expected, options.columns)
    timings = [
        time_operation(
            torch,
            partial(distances, torch, variant, a, b),
            variant=variant,
            operator="cdist",
            warmup=options.warmup,
            iterations=options.iterations,
        )
        for variant in variants
    ]
    return {**counted(options, COUNTS), **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS, builds=False)
    sys.exit(main("cdist", parser.parse_args(), measure))
