"""Update each of 120 parameters on its own."""

import time

import torch

STEPS = 10
layers = [torch.nn.Linear(256, 256) for _ in range(60)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
x = torch.randn(256, 256, device="cuda")


def step() -> None:
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
