"""Train GPT-2 of transformers in BF16 with the activation of its default configuration.

Avoidable: "gelu_new" is written with eight elementwise operations, forward and backward.
"""

import torch
from common import measure
from transformers import AutoModel, GPT2Config

CAUSE = "GELU written out elementwise"
STEPS = 20
rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
config = GPT2Config(vocab_size=8192, n_layer=4, **rates, activation_function="gelu_new", use_cache=False)
model = AutoModel.from_config(config, attn_implementation="sdpa").cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 8192, (48, 1024), device="cuda")


def step() -> None:
    model(input_ids=tokens).last_hidden_state.mean().backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, CAUSE)
