"""Train layers with a layer norm that is written with mean, var and elementwise operations.

Avoidable: each operation of the norm passes over the activations, where layer_norm reads them once.
"""

import torch
from common import measure

CAUSE = "layer norm written out elementwise"
STEPS, WIDTH = 20, 1024


class Norm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = (torch.nn.Parameter(torch.randn(WIDTH)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        return self.weight * ((x - mean) / torch.sqrt(variance + 1e-5)) + self.bias


model = torch.nn.Sequential(*(torch.nn.Sequential(Norm(), torch.nn.Linear(WIDTH, WIDTH)) for _ in range(6)))
model = model.cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(65_536, WIDTH, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    model(x).mean(dtype=torch.float32).backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, CAUSE)
