"""Add a residual and normalize its rows with one Triton kernel, then multiply with cuBLAS."""

import torch
import triton
import triton.language as tl
from common import measure

STEPS, ROWS, COLUMNS = 40, 65_536, 4096


@triton.jit
def add_norm(x, residual, weight, y, columns: tl.constexpr):  # noqa: ANN001, ANN201 - Triton's own types
    column = tl.arange(0, columns)
    row = tl.program_id(0).to(tl.int64) * columns + column
    total = tl.load(x + row).to(tl.float32) + tl.load(residual + row).to(tl.float32)
    tl.store(residual + row, total.to(tl.bfloat16))
    scale = tl.rsqrt(tl.sum(total * total, axis=0) / columns + 1e-6)
    tl.store(y + row, (total * scale * tl.load(weight + column)).to(tl.bfloat16))


x, residual, y = (torch.randn(ROWS, COLUMNS, device="cuda", dtype=torch.bfloat16) for _ in range(3))
weight = torch.ones(COLUMNS, device="cuda")
matrix = torch.randn(COLUMNS, COLUMNS, device="cuda", dtype=torch.bfloat16) / 64


def step() -> None:
    for _ in range(3):
        add_norm[(ROWS,)](x, residual, weight, y, COLUMNS, num_warps=8)
        torch.mm(y, matrix, out=x)


measure(step, STEPS, "")
