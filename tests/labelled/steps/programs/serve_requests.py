"""Answer five requests with a small Llama.

What repeats: 5 ranges `prefill`, each before 24 ranges `decode`.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from truth import begin, end, tell

REQUESTS = 5
TOKENS = 24
BATCH = 16
LENGTH = 512

config = LlamaConfig(vocab_size=16000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=3)
config.num_attention_heads = config.num_key_value_heads = 16
config.head_dim = 64
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
answers = []

begin("decoding steps")
begin("requests", wait=False)
with torch.inference_mode():
    for request in range(REQUESTS):
        prompt = torch.randint(0, 16000, (BATCH, LENGTH + 128 * request)).cuda()
        with torch.cuda.nvtx.range("prefill"):
            out = model(input_ids=prompt, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
        written = [token]
        for _ in range(TOKENS):
            with torch.cuda.nvtx.range("decode"):
                out = model(input_ids=token, past_key_values=out.past_key_values, use_cache=True)
                token = out.logits[:, -1:].argmax(-1)
                written.append(token)
        answers.append(torch.cat(written, 1).cpu())
end("requests", REQUESTS)
end("decoding steps", REQUESTS * TOKENS)
print(len(answers), answers[0].shape)
tell("decoding steps")
