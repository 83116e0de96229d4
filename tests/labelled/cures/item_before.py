"""Sum the loss of each of 40 blocks of a step with .item()."""

import time

import torch

STEPS, BLOCKS = 100, 40
weight = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
blocks = torch.randn(BLOCKS, 1024, 1024, device="cuda", dtype=torch.bfloat16)


def step() -> float:
    loss = 0.0
    for block in blocks:
        loss += (block @ weight).tanh().mean().item()
    return loss


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
total = sum(step() for _ in range(STEPS))
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
print(float(total))
