"""Sum the loss of each of 40 blocks of a step on the GPU."""

import time

import torch

STEPS, BLOCKS = 100, 40
weight = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
blocks = torch.randn(BLOCKS, 1024, 1024, device="cuda", dtype=torch.bfloat16)


def step() -> torch.Tensor:
    loss = torch.zeros((), device="cuda")
    for block in blocks:
        loss += (block @ weight).tanh().mean()
    return loss


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
total = sum(step() for _ in range(STEPS))
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
print(float(total))
