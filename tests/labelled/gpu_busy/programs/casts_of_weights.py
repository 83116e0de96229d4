"""Serve an MLP whose weights are kept in FP32 and made BF16 in each forward pass.

Avoidable: the casts of all weights; for a batch of this size they take about as long as the products.
"""

import torch
from common import measure
from torch.nn import functional

CAUSE = "casts of the weights in each forward pass"
STEPS, WIDTH, LAYERS = 40, 8192, 12
weights = [torch.randn(WIDTH, WIDTH, device="cuda") / 90 for _ in range(LAYERS)]
x = torch.randn(512, WIDTH, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    y = x
    for weight in weights:
        y = functional.linear(y, weight.to(torch.bfloat16)).relu_()


measure(step, STEPS, CAUSE)
