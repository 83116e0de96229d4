"""Step a small simulation with 120 small kernels, launched one by one."""

import time

import torch

STEPS = 100
height = torch.rand(128, 128, device="cuda")
speed = torch.zeros_like(height)


def step() -> None:
    for _ in range(30):
        slope = torch.roll(height, 1, 0) - height
        speed.add_(slope, alpha=0.01)
        height.add_(speed, alpha=0.01)


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
print(height.mean().item())
