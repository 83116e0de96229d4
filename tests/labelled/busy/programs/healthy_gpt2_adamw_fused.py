"""Train GPT-2 of transformers with a fused AdamW and a batch that keeps the GPU busy.

Nothing is lost: the optimizer takes a few kernels a step, and the launches run ahead.
"""

import torch
from common import measure
from transformers import GPT2Config, GPT2Model

torch.set_float32_matmul_precision("high")
config = GPT2Config(
    vocab_size=4096, n_positions=256, n_layer=6, n_embd=512, n_head=8, bos_token_id=0, eos_token_id=0
)
model = GPT2Model(config).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, 4096, (128, 256), device="cuda")


def train_step() -> None:
    loss = model(input_ids=tokens).last_hidden_state.square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


measure(train_step, 20, "none: a fused optimizer", warm_up=2)
