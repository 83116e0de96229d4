"""Generate tokens with Llama of transformers for 48 sequences, with its dynamic cache.

Avoidable: torch.cat copies all keys and values of the cache to append one token.
"""

import torch
from common import measure
from transformers import AutoModel, DynamicCache, LlamaConfig

CAUSE = "torch.cat of a growing cache in each step"
STEPS, BATCH, CONTEXT = 40, 48, 2048
shape = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
}
config = LlamaConfig(vocab_size=1024, num_hidden_layers=2, **shape)
with torch.device("cuda"):
    model = AutoModel.from_config(config, attn_implementation="sdpa").eval().bfloat16()
cache = DynamicCache()
tokens = torch.randint(0, 1024, (BATCH, CONTEXT), device="cuda")


def step() -> None:
    model(input_ids=tokens[:, -1:], past_key_values=cache, use_cache=True)


with torch.inference_mode():
    model(input_ids=tokens, past_key_values=cache, use_cache=True)
    measure(step, STEPS, CAUSE)
