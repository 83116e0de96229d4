"""Run layers whose FP32 weights are made BF16 once."""

import time

import torch

STEPS, WIDTH, LAYERS = 40, 8192, 12
weights = [torch.randn(WIDTH, WIDTH, device="cuda") / 90 for _ in range(LAYERS)]
weights = [weight.to(torch.bfloat16) for weight in weights]
x = torch.randn(512, WIDTH, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    y = x
    for weight in weights:
        y = torch.nn.functional.linear(y, weight).relu_()


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
