"""Compute beside a million Python objects, with garbage in each step; cured: without collections."""

import gc

import torch
from common import CURED, measure


class Node:
    def __init__(self, value: int) -> None:
        self.links = [self]  # a cycle
        self.value = value


replay = [Node(number) for number in range(1_000_000)]
x = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
gc.collect()
if CURED:
    gc.freeze()
    gc.disable()


def step() -> torch.Tensor:
    episode = [Node(number) for number in range(40_000)]
    return (x @ x).mean() * len(episode)


print(measure(step, 20).item())
