"""Multiply BF16 matrices with a persistent Triton kernel: a block a multiprocessor takes many tiles."""

import torch
import triton
import triton.language as tl
from common import measure

STEPS, N = 30, 8192


@triton.jit
def multiply(a, b, c, n: tl.constexpr, programs: tl.constexpr):  # noqa: ANN001, ANN201 - Triton's own types
    tiles: tl.constexpr = n // 128
    side: tl.constexpr = n // 256
    for tile in range(tl.program_id(0), tiles * side, programs):
        group = tile // (8 * side)  # eight rows of tiles share what they read
        rows = (group * 8 + tile % 8) * 128 + tl.arange(0, 128)
        columns = (tile % (8 * side) // 8) * 256 + tl.arange(0, 256)
        total = tl.zeros((128, 256), tl.float32)
        for k in range(0, n, 64):
            inner = k + tl.arange(0, 64)
            x = tl.load(a + rows[:, None] * n + inner[None, :])
            y = tl.load(b + inner[:, None] * n + columns[None, :])
            total = tl.dot(x, y, total)
        tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.bfloat16))


a, b, c = (torch.randn(N, N, device="cuda", dtype=torch.bfloat16) for _ in range(3))
programs = torch.cuda.get_device_properties(0).multi_processor_count


def step() -> None:
    for _ in range(8):
        multiply[(programs,)](a, b, c, N, programs, num_warps=8, num_stages=3)


measure(step, STEPS, "")
