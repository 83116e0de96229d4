"""Train Llama of transformers in BF16 with fused attention and optimizer; its layers are compiled."""

import torch
from common import measure
from transformers import AutoModel, LlamaConfig

STEPS = 20
shape = {"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 16, "num_key_value_heads": 16}
config = LlamaConfig(vocab_size=8192, num_hidden_layers=4, use_cache=False, **shape)
model = AutoModel.from_config(config, attn_implementation="sdpa").cuda().bfloat16()
for layer in model.layers:
    layer.compile()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 8192, (8, 2048), device="cuda")


def step() -> None:
    model(input_ids=tokens).last_hidden_state.mean().backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, "")
