"""Update each of 120 parameters on its own; cured: with the few kernels of a fused optimizer."""

import torch
from common import CURED, measure

layers = [torch.nn.Linear(256, 256) for _ in range(60)]
model = torch.nn.Sequential(*layers).cuda()
way = {"fused": True} if CURED else {"foreach": False}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **way)
x = torch.randn(256, 256, device="cuda")


def step() -> None:
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, 10)
