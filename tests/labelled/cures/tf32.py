"""Train with FP32 products on the FP32 units; cured: with TF32 products on the tensor cores."""

import torch
from common import CURED, measure

torch.set_float32_matmul_precision("high" if CURED else "highest")
layers = [torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.ReLU()) for _ in range(4)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(4096, 4096, device="cuda")


def step() -> None:
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, 30)
