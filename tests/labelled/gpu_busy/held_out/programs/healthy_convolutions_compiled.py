"""Run a stack of wide convolutions in BF16 and channels_last, with bias and SiLU fused by torch.compile."""

import torch
from common import measure

STEPS = 30
layers = [torch.nn.Sequential(torch.nn.Conv2d(512, 512, 3, padding=1), torch.nn.SiLU()) for _ in range(4)]
model = torch.nn.Sequential(*layers).cuda().bfloat16().to(memory_format=torch.channels_last)
images = torch.randn(64, 512, 64, 64, device="cuda", dtype=torch.bfloat16)
images = images.to(memory_format=torch.channels_last)
compiled = torch.compile(model)
with torch.no_grad():
    measure(lambda: compiled(images), STEPS, "")
