"""Train an attention layer on long sequences, with PyTorch's fused attention."""

import torch
from common import measure
from torch.nn import functional

STEPS, HEADS, WIDTH = 30, 16, 2048


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.merge = torch.nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.project(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return self.merge(y.transpose(1, 2).reshape(batch, length, WIDTH))


model = Attention().cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(4, 8192, WIDTH, device="cuda", dtype=torch.bfloat16)
gradient = torch.randn_like(x)


def step() -> None:
    model(x).backward(gradient)
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, "")
