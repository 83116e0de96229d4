"""Train BERT of transformers in FP32 storage with TF32 products.

Nothing is lost: the large products use the tensor cores, and the launches run ahead.
"""

import torch
from common import measure
from transformers import BertConfig, BertModel

torch.set_float32_matmul_precision("high")
shape = {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}
model = BertModel(BertConfig(vocab_size=8192, num_hidden_layers=6, **shape)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 8192, (32, 256), device="cuda")


def train_step() -> None:
    loss = model(input_ids=tokens).last_hidden_state.square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


measure(train_step, 40, "none: TF32 products", warm_up=2)
