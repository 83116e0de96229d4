"""Run convolutions in BF16 in the default layout, NCHW."""

import time

import torch

STEPS, WIDTH = 30, 128
layers = [torch.nn.Sequential(torch.nn.Conv2d(WIDTH, WIDTH, 3, padding=1), torch.nn.ReLU()) for _ in range(6)]
model = torch.nn.Sequential(*layers).cuda().bfloat16().requires_grad_(requires_grad=False)
x = torch.randn(256, WIDTH, 64, 64, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    model(x)


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
