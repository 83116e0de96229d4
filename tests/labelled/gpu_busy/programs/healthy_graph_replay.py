"""Run an MLP that torch.compile fuses and records as a CUDA graph."""

import torch
from common import measure

STEPS, WIDTH = 60, 8192
layers = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()) for _ in range(4)]
model = torch.nn.Sequential(*layers).cuda().bfloat16()
x = torch.randn(8192, WIDTH, device="cuda", dtype=torch.bfloat16)
compiled = torch.compile(model, mode="reduce-overhead")
with torch.no_grad():
    measure(lambda: compiled(x), STEPS, "", warm_up=4)
