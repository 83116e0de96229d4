"""Run residual layers that protect their input with a copy.

Avoidable: nothing writes to the input in place, so the three clones of each layer are for nothing.
"""

import torch
from common import measure

CAUSE = "needless clones of activations"
STEPS, WIDTH = 30, 1024
weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) / 32 for _ in range(8)]
x = torch.randn(131_072, WIDTH, device="cuda", dtype=torch.bfloat16)


def layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    shortcut = x.clone()
    y = torch.relu(x.clone() @ weight)
    return (shortcut + y).clone()


def step() -> None:
    y = x
    for weight in weights:
        y = layer(y, weight)


with torch.inference_mode():
    measure(step, STEPS, CAUSE)
