"""Train GPT-2 of transformers in BF16 with fused attention, a fused GELU and a fused AdamW."""

import torch
from common import measure
from transformers import AutoModel, GPT2Config

STEPS = 20
shape = {"vocab_size": 8192, "n_positions": 1024, "n_layer": 4, "n_embd": 2048, "n_head": 16}
rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
config = GPT2Config(**shape, **rates, activation_function="gelu_pytorch_tanh", use_cache=False)
model = AutoModel.from_config(config, attn_implementation="sdpa").cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 8192, (24, 1024), device="cuda")


def step() -> None:
    model(input_ids=tokens).last_hidden_state.mean().backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, "")
