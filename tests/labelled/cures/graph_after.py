"""Step a small simulation with 120 small kernels, replayed as a CUDA graph."""

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


step()  # loads the kernels
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    graph.replay()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
print(height.mean().item())
