"""Train Mistral of transformers in BF16 with grouped heads and fused attention; its layers are compiled."""

import torch
from common import measure
from transformers import AutoModel, MistralConfig

STEPS = 20
shape = {"hidden_size": 2560, "intermediate_size": 6912, "num_attention_heads": 20, "num_key_value_heads": 4}
config = MistralConfig(vocab_size=8192, num_hidden_layers=3, use_cache=False, sliding_window=None, **shape)
model = AutoModel.from_config(config, attn_implementation="sdpa").cuda().bfloat16()
for layer in model.layers:
    layer.compile()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 8192, (6, 2048), device="cuda")


def step() -> None:
    model(input_ids=tokens).last_hidden_state.mean().backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, "")
