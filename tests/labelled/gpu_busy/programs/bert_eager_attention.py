"""Train BERT of transformers in BF16 on long texts, with its eager attention.

Avoidable: attn_implementation="eager" writes the scores and reads them again for each operation.
"""

import torch
from common import measure
from transformers import AutoModel, BertConfig

CAUSE = "attention written out: the eager attention of transformers"
STEPS = 20
rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.1}
config = BertConfig(vocab_size=8192, num_hidden_layers=4, max_position_embeddings=2048, **rates)
model = AutoModel.from_config(config, attn_implementation="eager").cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 8192, (8, 2048), device="cuda")


def step() -> None:
    model(input_ids=tokens).last_hidden_state.mean().backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, CAUSE)
