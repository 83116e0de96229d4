"""Compare ten variants of attention, A01 to A10. What repeats: 12 passes of each; the names are no counter.

A07, which writes the scores to memory in float32, takes most of the time.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention
from truth import tell, timed

PASSES = 12
BATCH = 8
LENGTH = 2048


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q.float() @ k.float().transpose(-1, -2) / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ v.float()


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


# name, function, heads, width of a head, length
VARIANTS = [
    ("A01", scaled_dot_product_attention, 16, 64, LENGTH),
    ("A02", scaled_dot_product_attention, 8, 128, LENGTH),
    ("A03", scaled_dot_product_attention, 32, 32, LENGTH),
    ("A04", causal, 16, 64, LENGTH),
    ("A05", causal, 8, 128, LENGTH),
    ("A06", plain, 16, 64, LENGTH // 4),
    ("A07", plain, 16, 64, LENGTH),
    ("A08", causal, 32, 32, LENGTH),
    ("A09", plain, 8, 128, LENGTH // 2),
    ("A10", scaled_dot_product_attention, 16, 64, LENGTH // 2),
]

for name, function, heads, width, length in VARIANTS:
    q, k, v = (torch.randn(BATCH, heads, length, width, device="cuda", dtype=torch.float16) for _ in range(3))
    with timed(name, PASSES):
        for _ in range(PASSES):
            with torch.cuda.nvtx.range(name):
                out = function(q, k, v)
    print(name, out.abs().mean().item())
tell("A07")
