"""Form and factor normal equations in FP64: their condition number of 1e12 leaves FP32 no digits."""

import torch
from common import measure

STEPS = 20
powers = torch.logspace(0, -6, 8192, dtype=torch.float64, device="cuda")
design = torch.randn(32768, 8192, dtype=torch.float64, device="cuda") * powers
products = torch.empty(8192, 8192, dtype=torch.float64, device="cuda")


def step() -> None:
    torch.mm(design.T, design, out=products)
    torch.linalg.cholesky_ex(products)


measure(step, STEPS, "")
