"""Run an encoder whose attention is written with einsum and a softmax in FP32.

Avoidable: the scores go through memory six times, half of them in FP32.
"""

import torch
from common import measure

CAUSE = "attention written out, with einsum"
STEPS, HEADS, WIDTH = 20, 12, 768
weights = [torch.randn(4, WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) / 28 for _ in range(4)]
x = torch.randn(16, 1536, WIDTH, device="cuda", dtype=torch.bfloat16)


def layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    heads = (*x.shape[:2], HEADS, WIDTH // HEADS)
    query, key, value = ((x @ weight[part]).view(heads) for part in range(3))
    scores = torch.einsum("bihd,bjhd->bhij", query, key) * (WIDTH // HEADS) ** -0.5
    shares = torch.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
    return x + torch.einsum("bhij,bjhd->bihd", shares, value).reshape(x.shape) @ weight[3]


def step() -> None:
    y = x
    for weight in weights:
        y = layer(y, weight)


with torch.inference_mode():
    measure(step, STEPS, CAUSE)
