"""Run residual layers with copies of what nothing changes; cured: without copies."""

import torch
from common import CURED, measure

WIDTH = 1024
weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) / 32 for _ in range(8)]
x = torch.randn(131_072, WIDTH, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    y = x
    for weight in weights:
        if CURED:
            y = y + torch.relu(y @ weight)
        else:
            shortcut = y.clone()
            y = (shortcut + torch.relu(y.clone() @ weight)).clone()


measure(step, 30)
