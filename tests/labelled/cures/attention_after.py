"""Train causal attention with the fused attention of PyTorch."""

import time

import torch

STEPS, HEADS, LENGTH, WIDTH = 20, 16, 2048, 64
query, key, value = (
    torch.randn(8, HEADS, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    for _ in range(3)
)
gradient = torch.randn_like(query)


def step() -> None:
    y = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    y.backward(gradient)
    query.grad = key.grad = value.grad = None


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
