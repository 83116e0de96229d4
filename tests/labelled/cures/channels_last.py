"""Run convolutions in BF16 in the default layout, NCHW; cured: in channels_last."""

import torch
from common import CURED, measure

WIDTH = 128
layers = [torch.nn.Sequential(torch.nn.Conv2d(WIDTH, WIDTH, 3, padding=1), torch.nn.ReLU()) for _ in range(6)]
model = torch.nn.Sequential(*layers).cuda().bfloat16().requires_grad_(requires_grad=False)
x = torch.randn(256, WIDTH, 64, 64, device="cuda", dtype=torch.bfloat16)
if CURED:
    model = model.to(memory_format=torch.channels_last)
    x = x.to(memory_format=torch.channels_last)


def step() -> None:
    model(x)


measure(step, 30)
