"""Encode speech with the Whisper encoder of transformers in BF16, with its eager attention.

Avoidable: the scores of 1500 frames with each other are written and read by each operation.
"""

import torch
from common import measure
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

CAUSE = "attention written out: the eager attention of transformers"
STEPS = 20
config = WhisperConfig(d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048)
config._attn_implementation = "eager"  # noqa: SLF001 - what from_pretrained sets
model = WhisperEncoder(config).eval().cuda().bfloat16()
features = torch.randn(64, 80, 3000, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    measure(lambda: model(features), STEPS, CAUSE)
