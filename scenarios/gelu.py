"""Compute the tanh approximation of GELU in five ways, by one kernel or by eight.

y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) for N float32 numbers:

  torch    torch.nn.functional.gelu(x, approximate="tanh")
  manual   the formula as PyTorch operations, each with its own result tensor
  cuda     an extension in one file (kernels/gelu/gelu.cu)
  triton   a Triton kernel, 1024 elements per program
  compile  manual under torch.compile, which fuses it into one Triton kernel

Each launch is timed on the host, together with the synchronize after it.

What to look for in nsyswrap's output:

* The number of launches. Each operation of manual is a kernel, eight in all.
  Seven of their results are read once and discarded. All other variants launch
  a single kernel.
* Kernel time. The arithmetic is cheap, and memory takes the time. A single
  kernel reads and writes each element once, 8 bytes per element. manual does
  that eight times, and two of its kernels read two vectors. Compare the sum of
  its kernels with the one kernel of the others. In torch, triton and compile a
  thread processes several elements. These come close to the memory bandwidth if
  the vector is larger than the L2 cache (64 MiB by default). `gelu_kernel`, one
  element per thread, is slower on a fast memory.
* The names. `gelu_kernel` is from the extension, `gelu_triton_kernel` is the
  Triton kernel in this file. torch.compile names its kernel after the fused
  operations: `triton_poi_fused_` and their names.
* Launch overhead: the time that the program measured minus the kernels. The
  launcher of Triton starts in Python. A function from torch.compile first
  checks that its assumptions still hold (type, shape, ...). Such a call may
  take more host time than an operator of PyTorch itself.

Every result is compared with the same formula in float64 on the CPU, to within
1e-6 plus 1e-5 of its value. For x far below 0 the sum 1 + tanh(...) loses its
digits, and y is close to 0 there.

Nothing is compiled in the measured run. --build builds the extension. If Triton
is installed, --build also runs triton and compile once, which leaves their
kernels in caches (TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR; by default those
of nsyswrap). Both compile for what they know of N, so build with the --n to be
measured. The first call of compile still traces the function, inside the range
`check`. The last line on stdout is the result as JSON, times in microseconds.
"""

from __future__ import annotations

import importlib
import math
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
VARIANTS = ("torch", "manual", "cuda", "triton", "compile")
NEEDS = ("torch", "ninja", "nvcc", "gpu")
VARIANT_NEEDS = {"triton": ("triton",), "compile": ("triton",)}
LOOK_FOR = (
    "'manual' launches eight kernels and moves the vector through memory eight times. The other four "
    "variants launch one kernel, at different CPU cost. 'cuda' has one element per thread, and its kernel "
    "is slower."
)
COUNTS = {
    "n": (1, 1 << 24, "elements of the vector"),
    "warmup": (0, 5, "untimed calls before each variant"),
    "iterations": (1, 20, "timed calls of each variant"),
}
SEED = 5

SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
BLOCK = 1024
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}

tl: Any = None  # triton.language; make_triton sets this global, in which Triton looks it up


def manual(x: Tensor) -> Tensor:
    """Compute GELU with eight PyTorch operations."""
    return 0.5 * x * (1 + (SQRT_2_OVER_PI * (x + 0.044715 * x**3)).tanh())


# Triton compiles annotations too, so only its own are allowed here.
def gelu_triton_kernel(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, N803
    """Write GELU of n elements of x to y. Each program computes one block."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    offsets = first + tl.arange(0, BLOCK)
    inside = offsets < n
    value = tl.load(x + offsets, mask=inside)
    inner = 0.7978845608028654 * (value + 0.044715 * value * value * value)
    # 0.5 (1 + tanh(t)) = 1 / (1 + exp(-2 t)), which is right even if exp is infinite.
    tl.store(y + offsets, value / (1 + tl.exp(-2 * inner)), mask=inside)


def make_triton(torch: ModuleType) -> Callable[[Tensor], Tensor]:
    """Return GELU as a Triton kernel. The first call compiles it, unless it is in the cache."""
    need_triton()
    triton = importlib.import_module("triton")
    globals()["tl"] = importlib.import_module("triton.language")
    kernel = triton.jit(gelu_triton_kernel)

    def gelu(x: Tensor) -> Tensor:
        y: Tensor = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
        return y

    return gelu


def make_compiled(torch: ModuleType) -> Callable[[Tensor], Tensor]:
    """Return manual under torch.compile. The first call compiles it, unless it is in the cache."""
    need_triton()
    compiled: Callable[[Tensor], Tensor] = torch.compile(manual, fullgraph=True)
    return compiled


def make_function(torch: ModuleType, variant: str, library: str) -> Callable[[Tensor], Tensor]:
    """Return the function of a variant."""
    if variant == "torch":
        return partial(torch.nn.functional.gelu, approximate="tanh")
    if variant == "cuda":
        gelu: Callable[[Tensor], Tensor] = load("gelu", library).gelu
        return gelu
    if variant == "triton":
        return make_triton(torch)
    return make_compiled(torch) if variant == "compile" else manual


def check(torch: ModuleType, functions: dict[str, Callable[[Tensor], Tensor]], x: Tensor) -> None:
    """Raise AssertionError unless the result of every function is within the tolerance."""
    expected = torch.nn.functional.gelu(x.cpu().double(), approximate="tanh")
    # Keep all results, so that no result reuses the memory of an earlier correct one.
    results = [function(x) for function in functions.values()]
    for result in results:
        torch.testing.assert_close(result.cpu().double(), expected, **TOLERANCE)


def build(options: argparse.Namespace) -> str:
    """Build the extension and fill the compilers' caches. Return the library of the extension."""
    use_caches("gelu")
    torch = import_torch()
    library = str(build_extension(torch, kernels_dir() / "gelu").__file__)
    if has_triton():
        x = torch.zeros(options.n).cuda()
        for variant in VARIANT_NEEDS:
            make_function(torch, variant, library)(x)
        torch.cuda.synchronize()
    return library


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Check the requested variants, then time them."""
    use_caches("gelu")
    torch = import_torch()
    # Made on the CPU, so that the profile has no kernels but the ones compared.
    generator = torch.Generator().manual_seed(SEED)
    # A standard deviation of 4 covers both tails, where GELU is 0 and where it is x.
    x = (4 * torch.randn(options.n, generator=generator, dtype=torch.float32)).cuda()
    functions = {
        variant: make_function(torch, variant, options.built) for variant in chosen(options, VARIANTS)
    }
    with torch.cuda.nvtx.range("check"):
        check(torch, functions, x)
    timings = [
        time_operation(
            torch,
            partial(function, x),
            variant=variant,
            operator="gelu",
            warmup=options.warmup,
            iterations=options.iterations,
        )
        for variant, function in functions.items()
    ]
    return {**counted(options, COUNTS), **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    sys.exit(main("gelu", parser.parse_args(), measure, build))
