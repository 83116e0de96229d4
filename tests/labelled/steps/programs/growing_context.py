"""Train GPT-2 with a context that grows.

What repeats: 20 ranges `train_step`, the last many times the first.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from truth import tell, timed

STEPS = 20
BATCH = 16
GROWTH = 64

torch.set_float32_matmul_precision("high")
config = GPT2Config(vocab_size=4096, n_positions=STEPS * GROWTH, n_embd=512, n_layer=4, n_head=8)
model = GPT2LMHeadModel(config).cuda().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

with timed("training steps", STEPS):
    for step in range(STEPS):
        with torch.cuda.nvtx.range("train_step"):
            ids = torch.randint(0, 4096, (BATCH, GROWTH * (step + 1)), device="cuda")
            loss = model(input_ids=ids, labels=ids).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
print(loss.item())
tell("training steps")
