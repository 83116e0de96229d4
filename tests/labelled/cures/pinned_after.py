"""Copy batches from pinned memory, without waiting for the copy."""

import time

import torch

STEPS = 60
batches = [torch.rand(16384, 1024).pin_memory() for _ in range(4)]
weight = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)


def step(number: int) -> torch.Tensor:
    x = batches[number % 4].cuda(non_blocking=True)
    return (x.bfloat16() @ weight).relu().mean()


for number in range(4):
    step(number)
torch.cuda.synchronize()
started = time.perf_counter()
for number in range(STEPS):
    result = step(number)
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
print(result.item())
