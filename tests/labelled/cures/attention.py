"""Train causal attention written out; cured: with the fused attention of PyTorch."""

import torch
from common import CURED, measure

HEADS, LENGTH, WIDTH = 16, 2048, 64
query, key, value = (
    torch.randn(8, HEADS, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    for _ in range(3)
)
if not CURED:
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device="cuda").triu(1)
gradient = torch.randn_like(query)


def step() -> None:
    if CURED:
        y = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    else:
        scores = query @ key.transpose(-1, -2) / WIDTH**0.5
        weights = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
        y = weights @ value
    y.backward(gradient)
    query.grad = key.grad = value.grad = None


measure(step, 20)
