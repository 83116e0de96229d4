"""Train an MLP in BF16 with a hidden width of 8191."""

import time

import torch

STEPS, WIDTH = 20, 8191
layers = [torch.nn.Linear(4096, WIDTH), torch.nn.ReLU(inplace=True), torch.nn.Linear(WIDTH, 4096)]
model = torch.nn.Sequential(*layers).cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(16384, 4096, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    model(x).mean(dtype=torch.float32).backward()
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
