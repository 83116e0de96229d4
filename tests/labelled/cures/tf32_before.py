"""Train with FP32 products on the FP32 units."""

import time

import torch

STEPS = 30
torch.set_float32_matmul_precision("highest")
layers = [torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.ReLU()) for _ in range(4)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(4096, 4096, device="cuda")


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
