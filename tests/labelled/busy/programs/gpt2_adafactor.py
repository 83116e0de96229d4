"""Train GPT-2 of transformers with its Adafactor, which updates each parameter on its own.

Most time: some 1000 small kernels of the optimizer a step, twice as many as of the forward and backward pass.
"""

import torch
from common import measure
from transformers import GPT2Config, GPT2Model
from transformers.optimization import Adafactor

torch.set_float32_matmul_precision("high")
config = GPT2Config(
    vocab_size=4096, n_positions=256, n_layer=4, n_embd=512, n_head=8, bos_token_id=0, eos_token_id=0
)
model = GPT2Model(config).cuda()
optimizer = Adafactor(model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False)
tokens = torch.randint(0, 4096, (8, 256), device="cuda")


def train_step() -> None:
    loss = model(input_ids=tokens).last_hidden_state.square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


measure(train_step, 10, "an optimizer with kernels for each parameter", warm_up=2)
