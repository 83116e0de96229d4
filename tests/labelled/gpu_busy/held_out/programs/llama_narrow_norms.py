"""Train a narrow Llama of transformers in BF16.

Avoidable: its RMS norm casts to FP32, squares, averages, scales and casts back, each in a kernel of its own.
"""

import torch
from common import measure
from transformers import AutoModel, LlamaConfig

CAUSE = "RMS norm and rotary embedding written out elementwise, with casts"
STEPS = 20
shape = {"hidden_size": 768, "intermediate_size": 768, "num_attention_heads": 6, "num_key_value_heads": 6}
config = LlamaConfig(vocab_size=8192, num_hidden_layers=4, use_cache=False, **shape)
model = AutoModel.from_config(config, attn_implementation="sdpa").cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 8192, (64, 1024), device="cuda")


def step() -> None:
    model(input_ids=tokens).last_hidden_state.mean().backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, CAUSE)
