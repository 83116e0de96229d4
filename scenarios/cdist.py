"""Look into one call that launches many kernels: torch.cdist, in two ways.

torch.cdist(a, b) is the distance of every row of a from every row of b. The
inputs are two matrices of ROWS x COLUMNS float32 numbers, the result is a
matrix of ROWS x ROWS. PyTorch has two ways to compute the Euclidean distance.
The argument compute_mode selects one:

  mm      use_mm_for_euclid_dist: |x|^2 - 2xy + |y|^2, so nearly all of the work
          is one matrix product. Other kernels square and sum the rows, append
          the sums to the rows, clamp negative results to zero, and take the
          square root
  direct  donot_use_mm_for_euclid_dist: one kernel that sums (x - y)^2

In Python both are one line. By default PyTorch uses mm if either matrix has
more than 25 rows.

What to look for in nsyswrap's output:

* Launches in the closing table: the launch calls of one `torch.cdist`. There is
  one in direct and several in mm. Each of them costs CPU time (API Med). With
  few rows (--rows 64) most of mm is launch overhead.
* Kernel Med is the sum over all kernels of one call. cuda_gpu_kern_sum lists
  them separately. The matrix product is only one of them and need not be the
  longest. Its name depends on the GPU and the version of cuBLAS.
* In mm API Med, Queued Med and Kernel Med do not add up to Program, which times
  the call and a synchronize. While one kernel runs, the next ones are launched
  and wait in the queue.
* The NVTX range of each call, `mm/cdist` or `direct/cdist`. Only this range
  shows that the kernels belong together. No kernel name in mm mentions cdist.

mm is less exact. Its error is relative to the squares that are subtracted, not
to the distance. For two points far from the origin and close to each other, the
result is mostly rounding error, and the distance may come out as 0. Before
anything is measured, the results are compared with the CPU's in float64. The
rounding error of a sum of that many terms is E = (COLUMNS + 4) * 2^-23. direct
must be within E of each distance, relative to it. mm must be within
4 * COLUMNS * E of each squared distance, as all coordinates are in 0 to 1.

Tracing makes every launch slower, so quote the samples of a run without nsys.
The last line on stdout is the result as JSON, times in microseconds.
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

# The runner reads these literals without importing this file.
VARIANTS = ("mm", "direct")
NEEDS = ("torch", "gpu")
LOOK_FOR = (
    "One call of torch.cdist has several launches in 'mm' and one in 'direct' (Launches). API Med is the "
    "CPU time of these launches."
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
    """Return the distance of each row of `a` from each row of `b`: shape (rows of a, rows of b)."""
    result: Tensor = torch.cdist(a, b, compute_mode=_COMPUTE_MODES[variant])
    return result


def make_points(torch: ModuleType, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return two matrices on the CPU: float32, shape (rows, columns), values from 0 to 1."""
    generator = torch.Generator().manual_seed(SEED)
    a, b = (torch.rand(rows, columns, generator=generator) for _ in range(2))
    return a, b


def check(torch: ModuleType, variant: str, result: Tensor, expected: Tensor, columns: int) -> None:
    """Raise AssertionError unless `result` equals `expected` (float64) to the rounding of float32 sums."""
    error = (columns + 4) * torch.finfo(torch.float32).eps
    distance = result.cpu().double()
    if variant == "direct":
        torch.testing.assert_close(distance, expected, rtol=error, atol=0)
    else:
        torch.testing.assert_close(distance.square(), expected.square(), rtol=0, atol=4 * columns * error)


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
