"""Step a small simulation with 120 small kernels, launched one by one; cured: replayed as a CUDA graph."""

import torch
from common import CURED, measure

height = torch.rand(128, 128, device="cuda")
speed = torch.zeros_like(height)


def step() -> None:
    for _ in range(30):
        slope = torch.roll(height, 1, 0) - height
        speed.add_(slope, alpha=0.01)
        height.add_(speed, alpha=0.01)


if CURED:
    step()  # loads the kernels
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
measure(graph.replay if CURED else step, 100)
print(height.mean().item())
