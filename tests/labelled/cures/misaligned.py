"""Train an MLP in BF16 with a hidden width of 8191; cured: of 8192."""

import torch
from common import CURED, measure

WIDTH = 8192 if CURED else 8191
layers = [torch.nn.Linear(4096, WIDTH), torch.nn.ReLU(inplace=True), torch.nn.Linear(WIDTH, 4096)]
model = torch.nn.Sequential(*layers).cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(16384, 4096, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    model(x).mean(dtype=torch.float32).backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, 20)
