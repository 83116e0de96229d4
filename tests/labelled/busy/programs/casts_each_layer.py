"""Run a network whose layers each cast to FP16 for the product and back to FP32 for the rest.

Most time: the casts of activations and weights before and after each product.
"""

import torch
from common import report, start

STEPS, WIDTH = 30, 1024


class HalfLinear(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = torch.nn.functional.linear(x.half(), self.weight.half(), self.bias.half())
        return product.float()


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = HalfLinear(WIDTH, WIDTH), HalfLinear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.up(x).relu())


model = torch.nn.Sequential(*(Block() for _ in range(8))).cuda()
x = torch.randn(32768, WIDTH, device="cuda")
with torch.inference_mode():
    model(x)
    started = start()
    for _ in range(STEPS):
        y = model(x)
report("casts back and forth around each layer", STEPS, started)
