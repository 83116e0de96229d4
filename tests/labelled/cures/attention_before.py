"""Train causal attention written out."""

import time

import torch

STEPS, HEADS, LENGTH, WIDTH = 20, 16, 2048, 64
query, key, value = (
    torch.randn(8, HEADS, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    for _ in range(3)
)
later = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device="cuda").triu(1)
gradient = torch.randn_like(query)


def step() -> None:
    scores = query @ key.transpose(-1, -2) / WIDTH**0.5
    weights = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
    (weights @ value).backward(gradient)
    query.grad = key.grad = value.grad = None


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
