"""Multiply FP8 matrices on the tensor cores, with BF16 results."""

import torch
from common import measure

STEPS, N = 40, 8192
one = torch.ones((), device="cuda")
a = torch.randn(2 * N, N, device="cuda").to(torch.float8_e4m3fn)
b = torch.randn(N, N, device="cuda").to(torch.float8_e4m3fn).t()


def step() -> None:
    for _ in range(6):
        torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)  # noqa: SLF001


measure(step, STEPS, "")
