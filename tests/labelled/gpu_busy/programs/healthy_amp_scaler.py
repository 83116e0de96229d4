"""Train a wide MLP with FP16 autocast and a GradScaler; the fused AdamW checks for infinities itself."""

import torch
from common import measure

STEPS, WIDTH = 20, 8192
layers = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(inplace=True)) for _ in range(3)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
scaler = torch.amp.GradScaler("cuda")
x = torch.randn(32768, WIDTH, device="cuda", dtype=torch.float16)


def step() -> None:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).mean(dtype=torch.float32)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()


measure(step, STEPS, "")
