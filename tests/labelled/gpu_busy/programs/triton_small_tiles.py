"""Run layers whose product is a Triton kernel with tiles of 16 x 16.

Avoidable: such tiles read each matrix hundreds of times; cuBLAS or tiles of 128 x 256 are many times faster.
"""

import torch
import triton
import triton.language as tl
from common import measure

CAUSE = "a slow handwritten kernel: a Triton product with small tiles"
STEPS, N = 20, 4096


@triton.jit
def multiply(a, b, c, n: tl.constexpr, side: tl.constexpr):  # noqa: ANN001, ANN201 - Triton's own types
    rows = tl.program_id(1) * side + tl.arange(0, side)
    columns = tl.program_id(0) * side + tl.arange(0, side)
    total = tl.zeros((side, side), tl.float32)
    for k in range(0, n, side):
        inner = k + tl.arange(0, side)
        x = tl.load(a + rows[:, None] * n + inner[None, :])
        y = tl.load(b + inner[:, None] * n + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.bfloat16))


weights = [torch.randn(N, N, device="cuda", dtype=torch.bfloat16) / 64 for _ in range(3)]
x, y = (torch.randn(N, N, device="cuda", dtype=torch.bfloat16) for _ in range(2))


def step() -> None:
    for weight in weights:
        multiply[(N // 16, N // 16)](x, weight, y, N, 16, num_warps=1)
        torch.nn.functional.gelu(y)


measure(step, STEPS, CAUSE)
