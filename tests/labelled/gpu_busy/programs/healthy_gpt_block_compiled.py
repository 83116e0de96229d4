"""Train two blocks of a GPT that torch.compile fuses, in BF16, with a fused AdamW."""

import torch
from common import measure
from torch.nn import functional

STEPS, HEADS, WIDTH = 30, 16, 2048


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.project = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.merge = torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        query, key, value = (
            part.view(shape).transpose(1, 2) for part in self.project(self.norms[0](x)).chunk(3, -1)
        )
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.merge(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norms[1](x)), approximate="tanh"))


model = torch.nn.Sequential(Block(), Block()).cuda().bfloat16()
for block in model:
    block.compile()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(16, 1024, WIDTH, device="cuda", dtype=torch.bfloat16)
gradient = torch.randn_like(x)


def step() -> None:
    model(x).backward(gradient)
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, "")
