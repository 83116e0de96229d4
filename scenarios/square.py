"""Square a matrix in four ways: torch.square(a), a * a, a ** 2, a kernel inline.

One operation at a time squares a float32 matrix of ROWS x COLUMNS. It is timed
on the host, together with the synchronize after it:

  square         torch.square(a)
  mul            a * a
  pow            a ** 2
  inline         a kernel passed to PyTorch as text (load_inline), on a 2-D grid
                 of blocks of 16 x 16 threads, one element per thread
  autograd_mul   a * a under torch.autograd.profiler
  autograd_pow   a ** 2 under torch.autograd.profiler

Each allocates its result, from PyTorch's cache once warm, and launches a single
kernel. --clock applies to the first four. The last two run alone, without nsys.
With use_device="cuda" and use_kineto=True that profiler takes the kernels from
CUPTI, as nsys does. If these two are run under nsys, their profiler stays off.

What to look for in nsyswrap's output:

* The names of the kernels. `torch.square(a)` calls pow(a, 2) itself, so square
  and pow launch the same kernel. PyTorch's kernel for powers has a special case
  for the exponent 2 and multiplies there. No power is computed, and the numbers
  stay float32 although 2 is an integer. `a * a` launches the kernel for the
  product of any two tensors. `square_kernel` is the kernel of inline.
* Their durations. All have to move 8 bytes per element, and the computation is
  negligible. Expect them to come close to the memory bandwidth if the matrix is
  larger than the L2 cache (128 MiB by default). If one is slower, check how it
  accesses memory. A thread of PyTorch's kernels loads several elements at once,
  a thread of `square_kernel` only one.
* The host time of the launches. `a ** 2` takes a detour in Python, and PyTorch
  then determines the type of the result. torch.square adds one more operator.
  This costs CPU time before the kernel starts, and no GPU time.
  `--clock nosync` shows it without the kernel.
* `profiler` in the results of autograd_mul and autograd_pow. `kernels` are the
  kernels it recorded, one per launch. `cpu_ops` are PyTorch's operators,
  including the operators they call. `a * a` is one, `aten::mul`. `a ** 2` is
  `aten::pow` and the operators it calls.

By default (use_kineto=False) the autograd profiler records no kernels. It times
each operator between two CUDA events. The time in which the GPU waits for the
launch then counts as time of the operator.

All four results must equal the CPU's exactly, because one IEEE multiplication
rounds the same way everywhere. The last line on stdout is the result as JSON,
times in microseconds. --build only builds the inline kernel, and --built loads
the library that --build printed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import UsageError
from nsyswrap.record.in_program.clocks import add_clock_option, time_operation, time_profiled, usable
from nsyswrap.record.in_program.script import chosen, counted, main, make_parser, platform
from nsyswrap.record.in_program.torch_extension import build_inline, import_torch, load

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from types import ModuleType

    from torch import Tensor

    from nsyswrap.record.in_program.clocks import Operation
    from nsyswrap.record.in_program.script import Timing

# The runner reads these literals without importing this file.
VARIANTS = ("square", "mul", "pow", "inline", "autograd_mul", "autograd_pow")
NEEDS = ("torch", "ninja", "nvcc", "gpu")
ALONE = ("autograd_mul", "autograd_pow")
CROSS_CHECK = True
LOOK_FOR = (
    "'square' and 'pow' launch the same kernel, 'mul' another one. All three take about as long on the "
    "GPU: a ** 2 computes no power. 'inline' has one element per thread, and its kernel is slower."
)
COUNTS = {
    "rows": (1, 8192, "rows of the matrix"),
    "columns": (1, 4096, "columns of the matrix"),
    "warmup": (0, 5, "untimed launches before each variant"),
    "iterations": (1, 20, "timed launches of each variant"),
}
SEED = 4

OPERATORS = {"square": "torch.square(a)", "mul": "a * a", "pow": "a ** 2", "inline": "inline kernel"}
MOST_ROWS = 65535 * 16  # the limit of a grid's y dimension, in blocks of 16

EXTENSION = "square_inline"
CPP = "torch::Tensor square_matrix(const torch::Tensor &a);"
CUDA = """
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>

constexpr unsigned side = 16;  // threads of a block in x and in y

__global__ void square_kernel(const float *a, float *result, std::int64_t rows,
                              std::int64_t columns) {
  // Neighbors in x are adjacent in memory, so half a warp loads 64 consecutive bytes.
  const std::int64_t column = blockIdx.x * static_cast<std::int64_t>(side) + threadIdx.x;
  const std::int64_t row = blockIdx.y * static_cast<std::int64_t>(side) + threadIdx.y;
  if (row >= rows || column >= columns) return;
  const std::int64_t i = row * columns + column;
  result[i] = a[i] * a[i];
}

torch::Tensor square_matrix(const torch::Tensor &a) {
  TORCH_CHECK(a.is_cuda(), "a must be on a CUDA device, is on ", a.device());
  TORCH_CHECK(a.scalar_type() == torch::kFloat32, "a must be float32, is ", a.scalar_type());
  TORCH_CHECK(a.dim() == 2, "a must be a matrix, has ", a.dim(), " dimensions");
  TORCH_CHECK(a.is_contiguous(), "a must be contiguous");
  const c10::cuda::CUDAGuard guard(a.device());
  const auto result = torch::empty(a.sizes(), a.options());
  if (a.numel() == 0) return result;  // a launch without blocks is an error
  const dim3 block(side, side);
  const dim3 grid(static_cast<unsigned>((a.size(1) + side - 1) / side),
                  static_cast<unsigned>((a.size(0) + side - 1) / side));
  square_kernel<<<grid, block, 0, c10::cuda::getCurrentCUDAStream()>>>(
      a.data_ptr<float>(), result.data_ptr<float>(), a.size(0), a.size(1));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}
"""


def make_operations(
    torch: ModuleType, extension: ModuleType, a: Tensor, variants: Sequence[str]
) -> dict[str, Operation]:
    """Return the operation of each variant."""
    ways: dict[str, Operation] = {
        "square": lambda: torch.square(a),
        "mul": lambda: a * a,
        "pow": lambda: a**2,
        "inline": lambda: extension.square_matrix(a),
    }
    return {variant: ways[way_of(variant)] for variant in variants}


def way_of(variant: str) -> str:
    """Return the name of the operation that a variant times."""
    return variant.removeprefix("autograd_")


def check(torch: ModuleType, operations: Iterable[Operation], expected: Tensor) -> None:
    """Raise AssertionError unless the result of every operation equals `expected` exactly."""
    # Keep all results, so that no result reuses the memory of an earlier correct one.
    results = [operation() for operation in operations]
    for result in results:
        torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0)


def time_variant(
    torch: ModuleType, operation: Operation, variant: str, options: argparse.Namespace
) -> Timing:
    """Time one variant with its profiler or clock."""
    operator = OPERATORS[way_of(variant)]
    if variant not in ALONE:
        return time_operation(
            torch,
            operation,
            variant=variant,
            operator=operator,
            warmup=options.warmup,
            iterations=options.iterations,
            clock=usable(options.clock),
        )
    return time_profiled(
        torch,
        operation,
        lambda: torch.autograd.profiler.profile(use_device="cuda", use_kineto=True),
        variant=variant,
        operator=operator,
        warmup=options.warmup,
        launches=options.iterations,
    )


def build(_: argparse.Namespace) -> str:
    """Build the extension and return its library."""
    return str(build_inline(import_torch(), EXTENSION, CPP, CUDA, ["square_matrix"]).__file__)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Check the requested variants against the CPU, then time them."""
    if options.rows > MOST_ROWS:
        raise UsageError(f"--rows must be at most {MOST_ROWS}, the limit of the grid of 'inline' in y")
    torch = import_torch()
    # Made on the CPU, so that the profile has no kernels but the ones compared.
    generator = torch.Generator().manual_seed(SEED)
    a_cpu = torch.randn(options.rows, options.columns, generator=generator, dtype=torch.float32)
    extension = load(EXTENSION, options.built)
    operations = make_operations(torch, extension, a_cpu.cuda(), chosen(options, VARIANTS))
    with torch.cuda.nvtx.range("check"):
        check(torch, operations.values(), a_cpu * a_cpu)
    timings = [time_variant(torch, operations[variant], variant, options) for variant in operations]
    return {**counted(options, COUNTS), **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    add_clock_option(parser)
    sys.exit(main("square", parser.parse_args(), measure, build))
