"""Train wide layers with Adam written as a loop over parameters; cured: with a fused Adam."""

from itertools import pairwise

import torch
from common import CURED, measure

WIDTHS = [4096, 8192, 2048, 8192, 4096, 6144, 2048, 6144, 4096, 8192, 4096]
layers = [torch.nn.Linear(*widths) for widths in pairwise(WIDTHS)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)
moments = [(torch.zeros_like(one), torch.zeros_like(one)) for one in model.parameters()]
x = torch.randn(2048, WIDTHS[0], device="cuda")


@torch.no_grad()
def update() -> None:
    for parameter, (mean, square) in zip(model.parameters(), moments, strict=True):
        mean.mul_(0.9).add_(parameter.grad, alpha=0.1)
        square.mul_(0.999).addcmul_(parameter.grad, parameter.grad, value=0.001)
        parameter.addcdiv_(mean, square.sqrt().add_(1e-8), value=-1e-5)


def step() -> None:
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(x).square().mean()
    loss.backward()
    optimizer.step() if CURED else update()
    model.zero_grad()


measure(step, 10)
