"""Train a wide GPT-2 of transformers on few tokens, with RAdam without foreach and an average of the weights.

Avoidable: dozens of passes over all weights and moments a step, for the update and for the average.
"""

import torch
from common import measure
from transformers import AutoModel, GPT2Config

CAUSE = "an optimizer without foreach, and a handwritten average of the weights"
STEPS = 20
rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
config = GPT2Config(vocab_size=4096, n_layer=2, n_embd=4096, n_head=32, **rates, use_cache=False)
torch.set_float32_matmul_precision("high")
with torch.device("cuda"):
    model = AutoModel.from_config(config, attn_implementation="sdpa")
optimizer = torch.optim.RAdam(model.parameters(), lr=1e-5, foreach=False)
averages = [p.detach().clone() for p in model.parameters()]
tokens = torch.randint(0, 4096, (2, 1024), device="cuda")


def step() -> None:
    model(input_ids=tokens).last_hidden_state.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    for number, p in enumerate(model.parameters()):
        averages[number] = 0.999 * averages[number] + 0.001 * p.detach()


measure(step, STEPS, CAUSE)
