"""Let a small Llama write 64 tokens. What repeats: 63 decoding steps after the prefill, without any range."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessor, LogitsProcessorList
from truth import begin, end, tell

TOKENS = 64
BATCH = 32
LENGTH = 512


class Clock(LogitsProcessor):
    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[1] == LENGTH:  # the prefill is done
            begin("decoding steps", wait=False)
        return scores


config = LlamaConfig(
    vocab_size=32000,
    hidden_size=1024,
    intermediate_size=2816,
    num_hidden_layers=4,
    num_attention_heads=16,
    num_key_value_heads=8,
    max_position_embeddings=1024,
)
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
prompt = torch.randint(10, 32000, (BATCH, LENGTH), device="cuda")
written = model.generate(
    prompt,
    attention_mask=torch.ones_like(prompt),
    max_new_tokens=TOKENS,
    min_new_tokens=TOKENS,
    do_sample=False,
    pad_token_id=0,
    logits_processor=LogitsProcessorList([Clock()]),
)
end("decoding steps", TOKENS - 1)
print(written.shape)
tell("decoding steps")
