"""Multiply matrices by one call, with other types and sizes, and get other kernels.

torch.mm(a, b) of an M x K and a K x N matrix takes 2 M N K operations. cuBLAS
has hundreds of kernels for it, and chooses by type, size and alignment:

  float32  N x N x N, float32 on the CUDA cores
  tf32     the same, on the tensor cores: numbers are cut to 10 bits behind the
           point (torch.backends.cuda.matmul.allow_tf32)
  bf16     N x N x N, bfloat16 on the tensor cores
  odd      the same one smaller, (N - 1) x (N - 1) x (N - 1): rows do not begin
           at multiples of 16 bytes, as they would if N were a multiple of 8
  deep     256 x 256 x 16 N, bfloat16: few tiles of results, long sums
  vector   1 x N x N, bfloat16: every number of b is used once

What to look for in nsyswrap's output:

* The names in cuda_gpu_kern_sum. nsyswrap reads long ones for you: `gemm bf16
  256x128x64 nnt` is type, tile and layout. These are the pieces on an H200:

    nvjet, xmma, cutlass    families of kernels; nvjet is for Hopper and later
    sm80, sm90, cutlass_75  the architecture that the kernel was written for
    f32f32_tf32f32_f32      types; in nvjet's names tst stands for bfloat16
    nn, NNT                 layout: n is column by column, t row by row
    tilesize256x128x8       a block of threads computes a tile of 256 x 128
                            results, and adds 8 products to each at a time
    256x128_64x4            the same in nvjet: 64 at a time, and 4 stages
    stage3                  memory for three such parts: the next ones are
                            loaded while one is multiplied
    tensorop, s1688, tf32   tensor cores; s1688 is an instruction of theirs
    ffma, simt, sgemm       CUDA cores
    aligna4, align1         numbers in a load: four, or one as in odd
    splitK, splitKreduce    split-k, as below

* `nsyswrap report DIR -r kernel_class_sum` has the types, and the share of the
  time on tensor cores, by these names.

* Split-k in deep: the result has too few tiles for all SMs, so several blocks
  share a sum. A second kernel adds their parts (splitKreduce), or the name
  says splitK. Launches in the closing table shows whether there are two.
* The time per operation. Each timing in the JSON has `flop`, the operations of
  a call, and `tflops`, which is operations by Program. Program includes launch
  and wait. For the kernel alone divide `flop` by Kernel Med, and compare with
  the peak of your GPU for the type. A power limit keeps large products below.
* odd against bf16: almost the same work, 5.6 times the time on an H200. Pad
  sizes to a multiple of 8.
* vector: 1/4096 of the operations of bf16, but all of b to read. Divide the
  bytes of b, 2 N N, by Kernel Med, and compare with the memory bandwidth. The b
  of 32 MiB fits into the L2 cache of large GPUs, where the next call may find
  it.

Inputs are whole numbers from -2 to 2, so every product and every sum in float32
is exact. float32 and tf32 must equal the CPU's result. A result in bfloat16 has
8 bits: it must be within 2^-7 of its value plus the rounding of partial sums.

Tracing makes every launch slower, so quote the samples of a run without nsys.
The last line on stdout is the result as JSON, times in microseconds.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nsyswrap.record.in_program.clocks import time_operation
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform
from nsyswrap.record.in_program.torch_extension import import_torch

if TYPE_CHECKING:
    import argparse
    from types import ModuleType

    from torch import Tensor

# The runner reads these literals without importing this file.
VARIANTS = ("float32", "tf32", "bf16", "odd", "deep", "vector")
NEEDS = ("torch", "gpu")
LOOK_FOR = (
    "The same call launches another kernel in each variant. 'tf32' and 'bf16' use the tensor cores and are "
    "many times faster than 'float32'. 'odd' is slower than 'bf16' with almost the same work. 'vector' has "
    "1/4096 of the operations of 'bf16' and takes far more than 1/4096 of its time."
)
COUNTS = {
    "n": (2, 4096, "rows and columns of the square matrices"),
    "warmup": (0, 5, "untimed calls of each variant"),
    "iterations": (1, 20, "timed calls of each variant"),
}
SEED = 11


class Product(NamedTuple):
    """The sizes of a product and its type."""

    m: int
    n: int
    k: int
    dtype: str = "bfloat16"
    tf32: bool = False

    @property
    def flop(self) -> int:
        """The operations of one call; a multiply-add counts as two."""
        return 2 * self.m * self.n * self.k


def products(n: int) -> dict[str, Product]:
    """Return what each variant multiplies."""
    return {
        "float32": Product(n, n, n, "float32"),
        "tf32": Product(n, n, n, "float32", tf32=True),
        "bf16": Product(n, n, n),
        "odd": Product(n - 1, n - 1, n - 1),
        "deep": Product(256, 256, 16 * n),
        "vector": Product(1, n, n),
    }


def make_inputs(torch: ModuleType, product: Product) -> tuple[Tensor, Tensor]:
    """Return two matrices on the CPU, M x K and K x N, with whole numbers from -2 to 2."""
    generator = torch.Generator().manual_seed(SEED)
    sizes = ((product.m, product.k), (product.k, product.n))
    dtype = getattr(torch, product.dtype)
    a, b = (torch.randint(-2, 3, size, generator=generator).to(dtype) for size in sizes)
    return a, b


def multiply(torch: ModuleType, product: Product, a: Tensor, b: Tensor) -> Tensor:
    """Return a b."""
    torch.backends.cuda.matmul.allow_tf32 = product.tf32
    result: Tensor = torch.mm(a, b)
    return result


def check(torch: ModuleType, product: Product, result: Tensor, expected: Tensor) -> None:
    """Raise AssertionError unless ``result`` equals ``expected`` to the rounding of its type."""
    # The variance of a product is 4. Parts of a sum may be rounded to bfloat16 before they are added.
    error = {"rtol": 0.0, "atol": 0.0}
    if product.dtype == "bfloat16":
        error = {"rtol": 2**-7, "atol": 2**-5 * product.k**0.5}
    torch.testing.assert_close(result.cpu().float(), expected, **error)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Check the requested variants, then time each."""
    torch = import_torch()
    work = {name: products(options.n)[name] for name in chosen(options, VARIANTS)}
    inputs = {}
    for name, product in work.items():
        a, b = make_inputs(torch, product)
        inputs[name] = (a.cuda(), b.cuda())
        with torch.cuda.nvtx.range("check"):
            check(torch, product, multiply(torch, product, *inputs[name]), a.float() @ b.float())
    timings = []
    for name, product in work.items():
        timing = time_operation(
            torch,
            partial(multiply, torch, product, *inputs[name]),
            variant=name,
            operator="mm",
            warmup=options.warmup,
            iterations=options.iterations,
        )
        tflops = round(product.flop / timing["median_us"] / 1e6, 1)
        timings.append({**timing, "flop": product.flop, "tflops": tflops})
    return {**counted(options, COUNTS), **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS, builds=False)
    sys.exit(main("matmul", parser.parse_args(), measure))
