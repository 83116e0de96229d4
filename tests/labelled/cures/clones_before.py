"""Run residual layers with copies of what nothing changes."""

import time

import torch

STEPS, WIDTH = 30, 1024
weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) / 32 for _ in range(8)]
x = torch.randn(131_072, WIDTH, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    y = x
    for weight in weights:
        shortcut = y.clone()
        y = (shortcut + torch.relu(y.clone() @ weight)).clone()


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
