"""Train a small GPT-2 in bfloat16. What repeats: 25 training steps in ranges `step 0` to `step 24`."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from truth import tell, timed

STEPS = 25
BATCH = 32
LENGTH = 512

config = GPT2Config(vocab_size=8192, n_positions=LENGTH, n_embd=768, n_layer=4, n_head=12)
model = GPT2LMHeadModel(config).cuda().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
corpus = torch.randint(0, config.vocab_size, (STEPS, BATCH, LENGTH))

with timed("training steps", STEPS):
    for step in range(STEPS):
        torch.cuda.nvtx.range_push(f"step {step}")
        ids = corpus[step].cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.nvtx.range_pop()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
tell("training steps")
