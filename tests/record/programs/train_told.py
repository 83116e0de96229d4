"""Train models whose autograd functions say in NVTX ranges whose backward runs: ``told blocks.1``.

They have what makes this hard: activation checkpoints of both kinds, residuals, a module called twice, one
without gradients, operations in place, a profiler of the program's own.
"""

# PyTorch and nvtx have types in some versions only.
# mypy: ignore-errors

from typing import Any

import cpu_nvtx  # noqa: F401 - PyTorch's ranges
import nvtx
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Told(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, name: str) -> torch.Tensor:  # noqa: ANN401 - of PyTorch
        ctx.name = name
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # noqa: ANN401
        with nvtx.annotate(f"told {ctx.name}"):
            return gradient * 1, None


class Block(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.linear, self.act = name, nn.Linear(8, 8), nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Told.apply(x + Told.apply(self.act(self.linear(x)), self.name), self.name)


class Model(nn.Module):
    def __init__(self, *, reentrant: bool | None) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.first, self.last = Block("first"), Block("last")
        self.blocks = nn.ModuleList(Block(f"blocks.{number}") for number in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.first(x)
        x = self.first(x)
        for block in self.blocks:
            x = block(x) if self.reentrant is None else checkpoint(block, x, use_reentrant=self.reentrant)
        x = Told.apply(x, "Model")
        return (self.last(x) + self.last(x.detach())).sum()


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    Told.apply(model(torch.randn(4, 8)) * 2, "").backward()
    optimizer.step()


for reentrant in (None, False, True):
    model = Model(reentrant=reentrant)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        step(model, optimizer)
with torch.autograd.profiler.profile():
    step(model, optimizer)
