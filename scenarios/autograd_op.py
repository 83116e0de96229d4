"""Give PyTorch an operation of one's own with its backward, as two CUDA kernels.

y = x sigmoid(x) of N float32 numbers, and the gradient of x from that of y:

  torch   x * torch.sigmoid(x): PyTorch's autograd keeps sigmoid(x), and puts
          the backward together from that of the two operations
  cuda    a torch.autograd.Function, whose forward and backward are a kernel
          each in an extension (kernels/swish/swish.cu). It keeps x alone

The forward and the backward are timed apart, on the host, together with the
synchronize after them. The ranges are `torch/forward`, `torch/backward` and so
on.

What to look for in nsyswrap's output:

* Launches in the closing table: cuda has one in forward and one in backward.
  torch has two in forward and several in backward: one for each derivative, and
  one to add those that x gets on its two ways.
* Kernel time follows the bytes. cuda reads x and writes y, then reads x and a
  gradient and writes a gradient. Every further kernel of torch reads and writes
  vectors, too.
* The names: `swish_forward_kernel<float>` and `swish_backward_kernel<float>`.
  `<double>` is the check.
* The threads in cuda_api_trace. A backward is launched by a thread of autograd
  for each GPU, not by the thread that called it. nsyswrap finds what these
  ranges launched all the same.

Before anything is measured, torch.autograd.gradcheck compares the backward with
differences of the forward in float64. Result and gradient must be within 1e-5
of those of PyTorch's own silu in float64 on the CPU.

Nothing is compiled in the measured run; --build builds the extension. The last
line on stdout is the result as JSON, times in microseconds.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from nsyswrap.record.in_program.clocks import time_operation
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
VARIANTS = ("torch", "cuda")
NEEDS = ("torch", "ninja", "nvcc", "gpu")
LOOK_FOR = (
    "'cuda' launches one kernel in forward and one in backward. 'torch' launches several, and each of them "
    "moves the vector through memory again (Kernel Med)."
)
COUNTS = {
    "n": (1, 1 << 24, "elements of the vector"),
    "warmup": (0, 5, "untimed calls before each block"),
    "iterations": (1, 20, "timed calls of each block"),
}
SEED = 17
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
_CHECKED = 33  # elements in gradcheck, which computes two forwards for each


def by_torch(torch: ModuleType, x: Tensor) -> Tensor:
    """Return x sigmoid(x) by two operations of PyTorch."""
    y: Tensor = x * torch.sigmoid(x)
    return y


def make_swish(torch: ModuleType, extension: ModuleType) -> Callable[[Tensor], Tensor]:
    """Return the operation whose forward and backward are those of the extension."""

    class Swish(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(context: Any, x: Tensor) -> Any:  # noqa: ANN401 - torch is not installed for the type checker
            context.save_for_backward(x)
            return extension.forward(x)

        @staticmethod
        def backward(context: Any, gradient: Tensor) -> Any:  # noqa: ANN401
            (x,) = context.saved_tensors
            return extension.backward(x, gradient.contiguous())

    apply: Callable[[Tensor], Tensor] = Swish.apply
    return apply


def make_functions(
    torch: ModuleType, library: str, variants: tuple[str, ...]
) -> dict[str, Callable[[Tensor], Tensor]]:
    """Return the function of each variant."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {}
    for variant in variants:
        if variant == "cuda":
            functions[variant] = make_swish(torch, load("swish", library))
        else:
            functions[variant] = partial(by_torch, torch)
    return functions


def check(torch: ModuleType, function: Callable[[Tensor], Tensor], x: Tensor, gradient: Tensor) -> None:
    """Raise AssertionError unless the backward is that of the forward, and both are right."""
    few = x.detach()[:_CHECKED].double().requires_grad_()
    if not torch.autograd.gradcheck(function, (few,), raise_exception=False):
        raise AssertionError("the backward is not the derivative of the forward")
    right = x.detach().cpu().double().requires_grad_()
    expected = torch.nn.functional.silu(right)
    (right_gradient,) = torch.autograd.grad(expected, right, gradient.cpu().double())
    y = function(x)
    (found,) = torch.autograd.grad(y, x, gradient)
    torch.testing.assert_close(y.detach().cpu().double(), expected.detach(), **TOLERANCE)
    torch.testing.assert_close(found.cpu().double(), right_gradient, **TOLERANCE)


def build(_: argparse.Namespace) -> str:
    """Build the extension and return its library."""
    return str(build_extension(import_torch(), kernels_dir() / "swish").__file__)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Check the requested variants, then time the forward and the backward of each."""
    torch = import_torch()
    generator = torch.Generator().manual_seed(SEED)
    # Made on the CPU, so that the profile has no kernels but the ones compared.
    x, gradient = (4 * torch.randn(options.n, generator=generator) for _ in range(2))
    x, gradient = x.cuda().requires_grad_(), gradient.cuda()
    functions = make_functions(torch, options.built, chosen(options, VARIANTS))
    with torch.cuda.nvtx.range("check"):
        for function in functions.values():
            check(torch, function, x, gradient)
    timings = []
    for variant, function in functions.items():
        y = function(x)
        operations = {
            "forward": partial(function, x),
            "backward": partial(torch.autograd.grad, y, x, gradient, retain_graph=True),
        }
        timings += [
            time_operation(
                torch,
                operation,
                variant=variant,
                operator=operator,
                warmup=options.warmup,
                iterations=options.iterations,
            )
            for operator, operation in operations.items()
        ]
    return {**counted(options, COUNTS), **platform(torch), "timings": timings}


if __name__ == "__main__":
    parser = make_parser(__doc__, VARIANTS, counts=COUNTS)
    sys.exit(main("autograd_op", parser.parse_args(), measure, build))
