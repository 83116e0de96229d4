"""Train BERT of transformers in BF16 with fused attention and AdamW, wide enough that products dominate."""

import torch
from common import measure
from transformers import AutoModel, BertConfig

STEPS = 20
shape = {"hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 8192, "num_hidden_layers": 4}
rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
model = AutoModel.from_config(BertConfig(vocab_size=8192, **shape, **rates), attn_implementation="sdpa")
model = model.cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 8192, (64, 384), device="cuda")


def step() -> None:
    model(input_ids=tokens).last_hidden_state.mean().backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, "")
