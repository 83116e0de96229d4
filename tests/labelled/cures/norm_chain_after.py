"""Normalize rows with layer_norm before products."""

import time

import torch

STEPS, WIDTH = 20, 1024
weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) / 32 for _ in range(6)]
scale, shift = (torch.randn(WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(2))
x = torch.randn(65_536, WIDTH, device="cuda", dtype=torch.bfloat16)


def norm(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (WIDTH,), scale, shift)


def step() -> None:
    y = x
    for weight in weights:
        y = norm(y) @ weight


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
