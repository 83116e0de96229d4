"""Run Llama of transformers under autocast to BF16, with weights left in FP32.

Avoidable: autocast casts all weights again in each forward pass.
"""

import torch
from common import measure
from transformers import AutoModel, LlamaConfig

CAUSE = "casts of FP32 weights in each forward pass under autocast"
STEPS = 30
shape = {"hidden_size": 8192, "intermediate_size": 22016, "num_attention_heads": 64, "num_key_value_heads": 8}
config = LlamaConfig(vocab_size=1024, num_hidden_layers=3, use_cache=False, **shape)
with torch.device("cuda"):
    model = AutoModel.from_config(config, attn_implementation="sdpa").eval()
tokens = torch.randint(0, 1024, (1, 768), device="cuda")


def step() -> None:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        model(input_ids=tokens)


with torch.inference_mode():
    measure(step, STEPS, CAUSE)
