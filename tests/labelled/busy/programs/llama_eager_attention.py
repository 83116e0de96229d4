"""Train a small Llama of transformers with eager attention on long sequences.

Most time: the matrix of attention scores, which products, a mask, a softmax and casts write and read.
"""

import torch
from common import measure
from transformers import AutoModel, LlamaConfig

shape = {"hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16, "num_key_value_heads": 16}
config = LlamaConfig(vocab_size=8192, num_hidden_layers=4, use_cache=False, **shape)
model = AutoModel.from_config(config, attn_implementation="eager").cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 8192, (4, 2048), device="cuda")


def train_step() -> None:
    loss = model(input_ids=tokens).last_hidden_state.float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


measure(train_step, 12, "attention not fused", warm_up=2)
