"""Encode speech with the Whisper encoder of transformers in BF16 with fused attention."""

import torch
from common import measure
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

STEPS = 25
config = WhisperConfig(
    d_model=1280, encoder_layers=6, encoder_attention_heads=20, encoder_ffn_dim=5120, num_mel_bins=128
)
config._attn_implementation = "sdpa"  # noqa: SLF001 - what from_pretrained sets
model = WhisperEncoder(config).eval().cuda().bfloat16()
features = torch.randn(48, 128, 3000, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    measure(lambda: model(features), STEPS, "")
