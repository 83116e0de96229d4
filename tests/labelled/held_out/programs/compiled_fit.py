"""Fit a compiled network; it is compiled before the loop, in a start-up of 1.5 s and more.

Healthy: the kernels of a step take many times as long as its launches.
"""

from __future__ import annotations

import torch
from pieces import start_up

start_up(1.5)
torch.set_float32_matmul_precision("high")
layers = [module for _ in range(5) for module in (torch.nn.Linear(4096, 4096), torch.nn.GELU())]
network = torch.nn.Sequential(*layers).cuda()
compiled = torch.compile(network)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
batch = torch.rand(8192, 4096, device="cuda")


def fit() -> torch.Tensor:
    optimizer.zero_grad()
    loss = compiled(batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss


for _ in range(3):
    fit()
torch.cuda.synchronize()
for number in range(30):
    with torch.cuda.nvtx.range("fit"):
        loss = fit()
        if number % 5 == 4:
            print(number, loss.item())
torch.cuda.synchronize()
