"""Encode long texts with T5 of transformers in BF16; a learned bias is added to its attention.

Avoidable: product, bias, softmax and casts each pass over the scores; a fused kernel takes a bias, too.
"""

import torch
from common import measure
from transformers import T5Config, T5EncoderModel

CAUSE = "attention written out, with a bias"
STEPS = 20
config = T5Config(vocab_size=8192, num_layers=4, d_model=768, num_heads=12, d_ff=2048, dropout_rate=0.0)
config._attn_implementation = "eager"  # noqa: SLF001 - what from_pretrained sets
model = T5EncoderModel(config).eval().cuda().bfloat16()
tokens = torch.randint(0, 8192, (12, 2048), device="cuda")
with torch.inference_mode():
    measure(lambda: model(input_ids=tokens), STEPS, CAUSE)
