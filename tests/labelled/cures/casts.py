"""Run layers whose FP32 weights are made BF16 in each step; cured: once."""

import torch
from common import CURED, measure

WIDTH, LAYERS = 8192, 12
weights = [torch.randn(WIDTH, WIDTH, device="cuda") / 90 for _ in range(LAYERS)]
if CURED:
    weights = [weight.to(torch.bfloat16) for weight in weights]
x = torch.randn(512, WIDTH, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    y = x
    for weight in weights:
        y = torch.nn.functional.linear(y, weight if CURED else weight.to(torch.bfloat16)).relu_()


measure(step, 40)
