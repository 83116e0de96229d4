"""Attend over 32 thousand tokens with PyTorch's fused attention; nothing else is computed."""

import torch
from common import measure
from torch.nn import functional

STEPS = 25
query, key, value = (torch.randn(1, 32, 32_768, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
with torch.inference_mode():
    measure(lambda: functional.scaled_dot_product_attention(query, key, value, is_causal=True), STEPS, "")
