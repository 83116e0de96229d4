"""Gather 500 small tensors on the host and copy them at once."""

import time

import torch

STEPS = 30
samples = [torch.rand(64) for _ in range(500)]
weight = torch.randn(64, 64, device="cuda")


def step() -> torch.Tensor:
    batch = torch.stack(samples).cuda()
    return (batch @ weight).relu().mean()


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    result = step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
print(result.item())
