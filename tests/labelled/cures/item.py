"""Sum the loss of each of 40 blocks of a step with .item(); cured: on the GPU."""

from typing import Any

import torch
from common import CURED, timed

STEPS, BLOCKS = 100, 40
weight = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
blocks = torch.randn(BLOCKS, 1024, 1024, device="cuda", dtype=torch.bfloat16)


def step() -> Any:  # noqa: ANN401 - a tensor if cured, else a number
    loss: Any = torch.zeros((), device="cuda") if CURED else 0.0
    for block in blocks:
        mean = (block @ weight).tanh().mean()
        loss += mean if CURED else mean.item()
    return loss


for _ in range(3):
    step()
with timed(STEPS):
    total = sum(step() for _ in range(STEPS))
print(float(total))
