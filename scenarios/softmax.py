"""Compute the softmax of each row of a matrix in five ways, and count the bytes.

y = exp(x - max(x)) / sum(exp(x - max(x))) for each of ROWS rows of COLUMNS
float32 numbers:

  torch    torch.softmax(x, dim=1)
  naive    the formula as PyTorch operations, each with its own result tensor
  cuda     an extension in one file (kernels/softmax/softmax.cu): a block of
           threads a row, which reads the row twice
  triton   a Triton kernel: a program a row, which keeps the row in registers
  compile  naive under torch.compile, which fuses it into one Triton kernel

Each launch is timed on the host, together with the synchronize after it.

What to look for in nsyswrap's output:

* The bytes. No way can move less than the matrix in and the matrix out: 8 bytes
  a number, `least_bytes` in the JSON. `moved` says how many times as much the
  kernels of a variant ask for: 1 in torch and triton, 1.5 in cuda, where the
  second read may come from a cache, and 4 in naive, whose five kernels read
  five matrices and write three.
* Kernel time follows the bytes, as the arithmetic is cheap: least_bytes by
  Kernel Med is the bandwidth that a variant gets. Compare it with that of the
  GPU's data sheet. The matrix (64 MiB by default) must be larger than the L2
  cache, or part of it is read from there.
* The number of launches: five in naive, one in all others.
* cuda moves little more than triton and takes twice the time on an H200. Its
  threads load one number at a time, and compute two exponentials for each.
* The names: `softmax_kernel` is from the extension, `softmax_triton_kernel` is
  the Triton kernel in this file. torch.compile names its kernel after the fused
  operations: `triton_red_fused_` or `triton_per_fused_` and their names.

Every result is compared with the same formula in float64 on the CPU, to within
1e-5 of its value plus 1e-9. Rows are shifted by up to 80, so that a way that
forgets the maximum overflows.

Nothing is compiled in the measured run. --build builds the extension. If Triton
is installed, --build also runs triton and compile once, which leaves their
kernels in caches (TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR; by default those
of nsyswrap). Both compile for what they know of the sizes, so build with those
to be measured. The last line on stdout is the result as JSON, times in
microseconds.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from nsyswrap.record.in_program.clocks import time_operation
from nsyswrap.record.in_program.compilers import has_triton, need_triton, use_caches
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform
from nsyswrap.record.in_program.torch_extension import build as build_extension
from nsyswrap.record.in_program.torch_extension import import_torch, load
from nsyswrap.record.scenarios import kernels_dir

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from types import ModuleType

    from torch import Tensor

# The runner reads these literals without importing this file.
VARIANTS = ("torch", "naive", "cuda", "triton", "compile")
NEEDS = ("torch", "ninja", "nvcc", "gpu")
VARIANT_NEEDS = {"triton": ("triton",), "compile": ("triton",)}
LOOK_FOR = (
    "'naive' launches five kernels, which move four times the bytes that are needed. The other variants "
    "launch one kernel (Launches), and their Kernel Med is far less."
)
COUNTS = {
    "rows": (1, 4096, "rows of the matrix"),
    "columns": (1, 4096, "numbers in a row"),
    "warmup": (0, 5, "untimed calls before each variant"),
    "iterations": (1, 20, "timed calls of each variant"),
}
SEED = 7
TOLERANCE = {"rtol": 1e-5, "atol": 1e-9}
# What the kernels of a variant read and write as they are written, in matrices; two are the least possible.
MATRICES = {"torch": 2, "naive": 8, "cuda": 3, "triton": 2, "compile": None}
BYTES = 4

tl: Any = None  # triton.language; make_triton sets this global, in which Triton looks it up


def naive(x: Tensor) -> Tensor:
    """Compute the softmax of each row with five PyTorch operations."""
    exponents = (x - x.amax(1, keepdim=True)).exp()
    return exponents / exponents.sum(1, keepdim=True)


# Triton compiles annotations too, so only its own are allowed here.
def softmax_triton_kernel(x, y, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, N803
    """Write the softmax of a row of x to y. Each program computes one row of at most BLOCK numbers."""
    first = tl.program_id(0).to(tl.int64) * columns
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    row = tl.load(x + first + offsets, mask=inside, other=-float("inf"))
    exponents = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + first + offsets, exponents / tl.sum(exponents, axis=0), mask=inside)


def make_triton(torch: ModuleType) -> Callable[[Tensor], Tensor]:
    """Return the softmax as a Triton kernel. The first call compiles it, unless it is in the cache."""
    need_triton()
    triton = importlib.import_module("triton")
    globals()["tl"] = importlib.import_module("triton.language")
    kernel = triton.jit(softmax_triton_kernel)

    def softmax(x: Tensor) -> Tensor:
        y: Tensor = torch.empty_like(x)
        rows, columns = x.shape
        kernel[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
        return y

    return softmax


def make_function(torch: ModuleType, variant: str, library: str) -> Callable[[Tensor], Tensor]:
    """Return the function of a variant."""
    if variant == "torch":
        return partial(torch.softmax, dim=1)
    if variant == "cuda":
        softmax: Callable[[Tensor], Tensor] = load("softmax", library).softmax
        return softmax
    if variant == "triton":
        return make_triton(torch)
    if variant == "naive":
        return naive
    need_triton()
    compiled: Callable[[Tensor], Tensor] = torch.compile(naive, fullgraph=True)
    return compiled


def make_matrix(torch: ModuleType, rows: int, columns: int) -> Tensor:
    """Return a matrix on the CPU: float32, shape (rows, columns), each row about a number from -80 to 80."""
    generator = torch.Generator().manual_seed(SEED)
    around = 160 * torch.rand(rows, 1, generator=generator) - 80
    matrix: Tensor = around + 4 * torch.randn(rows, columns, generator=generator)
    return matrix


def check(torch: ModuleType, functions: dict[str, Callable[[Tensor], Tensor]], x: Tensor) -> None:
    """Raise AssertionError unless the result of every function is within the tolerance."""
    expected = torch.softmax(x.cpu().double(), dim=1)
    # Keep all results, so that no result reuses the memory of an earlier correct one.
    results = [function(x) for function in functions.values()]
    for result in results:
        torch.testing.assert_close(result.cpu().double(), expected, **TOLERANCE)


def build(options: argparse.Namespace) -> str:
    """Build the extension and fill the compilers' caches. Return the library of the extension."""
    use_caches("softmax")
    torch = import_torch()
    library = str(build_extension(torch, kernels_dir() / "softmax").__file__)
    if has_triton():
        x = torch.zeros(options.rows, options.columns).cuda()
        for variant in VARIANT_NEEDS:
            make_function(torch, variant, library)(x)
        torch.cuda.synchronize()
    return library


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Check the requested variants, then time them."""
    use_caches("softmax")
    torch = import_torch()
    # Made on the CPU, so that the profile has no kernels but the ones compared.
    x = make_matrix(torch, options.rows, options.columns).cuda()
    functions = {
        variant: make_function(torch, variant, options.built) for variant in chosen(options, VARIANTS)
    }
    with torch.cuda.nvtx.range("check"):
        check(torch, functions, x)
    least = 2 * BYTES * options.rows * options.columns
    timings = []
    for variant, function in functions.items():
        timing = time_operation(
            torch,
            partial(function, x),
            variant=variant,
            operator="softmax",
            warmup=options.warmup,
            iterations=options.iterations,
        )
        matrices = MATRICES[variant]
        timings.append({**timing, "least_bytes": least, "moved": matrices and matrices / 2})
    return {**counted(options, COUNTS), **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    sys.exit(main("softmax", parser.parse_args(), measure, build))
