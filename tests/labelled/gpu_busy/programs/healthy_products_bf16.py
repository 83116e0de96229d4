"""Multiply large BF16 matrices with cuBLAS, into buffers that exist."""

import torch
from common import measure

STEPS = 40
a, b, out = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(3))


def step() -> None:
    for _ in range(8):
        torch.mm(a, b, out=out)


measure(step, STEPS, "")
