"""Compute image features with DINOv2 of transformers in BF16 with fused attention, on large batches."""

import torch
from common import measure
from transformers import AutoModel, Dinov2Config

STEPS = 20
config = Dinov2Config(
    hidden_size=1536, num_attention_heads=24, num_hidden_layers=6, image_size=224, patch_size=14
)
model = AutoModel.from_config(config, attn_implementation="sdpa").eval().cuda().bfloat16()
images = torch.randn(192, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    measure(lambda: model(images), STEPS, "")
