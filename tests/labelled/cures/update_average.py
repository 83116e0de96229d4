"""Train a Llama of transformers with an average by a loop; cured: by torch._foreach_lerp_."""

import torch
from common import CURED, measure
from transformers import LlamaConfig, LlamaForCausalLM

torch.set_float32_matmul_precision("high")
sizes = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 4, "num_attention_heads": 16}
with torch.device("cuda"):
    model = LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=8192, attn_implementation="sdpa"))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
averages = [parameter.detach().clone() for parameter in model.parameters()]
tokens = torch.randint(0, 8192, (2, 512), device="cuda")


@torch.no_grad()
def average() -> None:
    if CURED:
        torch._foreach_lerp_(averages, list(model.parameters()), 0.001)
        return
    for mean, parameter in zip(averages, model.parameters(), strict=True):
        mean.mul_(0.999)
        mean.add_(parameter, alpha=0.001)


def step() -> None:
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    average()


measure(step, 10)
