"""Train narrow layers in which dropout, the residual and the norm are operations of their own.

Avoidable: torch.compile makes one pass of these, forward and backward.
"""

import torch
from common import measure
from torch.nn import functional

CAUSE = "dropout, residual and norm without fusion"
STEPS, WIDTH = 20, 768


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + functional.dropout(functional.gelu(self.linear(x)), 0.1))


model = torch.nn.Sequential(*(Layer() for _ in range(8))).cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(131_072, WIDTH, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    model(x).mean(dtype=torch.float32).backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, CAUSE)
