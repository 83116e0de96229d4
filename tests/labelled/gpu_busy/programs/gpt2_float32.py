"""Train GPT-2 of transformers in FP32 with PyTorch's default precision of products.

Avoidable: large products on the FP32 units, where the tensor cores stay idle.
"""

import torch
from common import measure
from transformers import AutoModel, GPT2Config

CAUSE = "FP32 products without TF32"
STEPS = 20
config = GPT2Config(
    vocab_size=8192,
    n_positions=1024,
    n_layer=4,
    n_embd=1280,
    n_head=20,
    activation_function="gelu_pytorch_tanh",
)
model = AutoModel.from_config(config, attn_implementation="sdpa").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 8192, (8, 1024), device="cuda")


def step() -> None:
    model(input_ids=tokens, use_cache=False).last_hidden_state.mean().backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, CAUSE)
