"""Compute beside a million Python objects, with cyclic garbage in each step."""

import gc
import time

import torch

STEPS = 20


class Node:
    def __init__(self, value: int) -> None:
        self.links = [self]  # a cycle
        self.value = value


replay = [Node(number) for number in range(1_000_000)]
x = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
gc.collect()


def step() -> torch.Tensor:
    episode = [Node(number) for number in range(40_000)]
    return (x @ x).mean() * len(episode)


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    result = step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
print(result.item())
