"""Call a compiled function with another shape in every step.

What repeats: 4 steps, each with a compilation.
"""

import torch
from truth import tell, timed

STEPS = 4
ROWS = 16384


def mix(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.nn.functional.gelu(x @ w)
    return torch.softmax(y - y.mean(-1, keepdim=True), -1) * x


torch.set_float32_matmul_precision("high")
compiled = torch.compile(mix, dynamic=False)
total = torch.zeros((), device="cuda")
with timed("steps", STEPS):
    for step in range(STEPS):
        width = 1024 + 512 * step
        x = torch.randn(ROWS, width, device="cuda")
        w = torch.randn(width, width, device="cuda") / width
        for _ in range(20):
            x = compiled(x, w)
        total += x.sum()
print(total.item())
tell("steps")
