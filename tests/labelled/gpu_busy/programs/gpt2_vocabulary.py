"""Train a shallow GPT-2 of transformers in BF16 with its vocabulary of 50257.

Avoidable: the products with the odd vocabulary, misaligned in BF16, take most of the time.
"""

import torch
from common import measure
from transformers import AutoModelForCausalLM, GPT2Config

CAUSE = "misaligned BF16 dimensions: a vocabulary of 50257"
STEPS = 20
shape = {"n_positions": 1024, "n_layer": 1, "n_embd": 2048, "n_head": 16}
rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
config = GPT2Config(
    vocab_size=50257, **shape, **rates, activation_function="gelu_pytorch_tanh", use_cache=False
)
model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 50257, (8, 1024), device="cuda")


def step() -> None:
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, CAUSE)
