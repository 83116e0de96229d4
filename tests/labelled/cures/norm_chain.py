"""Normalize rows with elementwise operations before products; cured: with layer_norm."""

import torch
from common import CURED, measure

WIDTH = 1024
weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) / 32 for _ in range(6)]
scale, shift = (torch.randn(WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(2))
x = torch.randn(65_536, WIDTH, device="cuda", dtype=torch.bfloat16)


def norm(x: torch.Tensor) -> torch.Tensor:
    if CURED:
        return torch.nn.functional.layer_norm(x, (WIDTH,), scale, shift)
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).pow(2).mean(-1, keepdim=True)
    return scale * ((x - mean) / torch.sqrt(variance + 1e-5)) + shift


def step() -> None:
    y = x
    for weight in weights:
        y = norm(y) @ weight


measure(step, 20)
