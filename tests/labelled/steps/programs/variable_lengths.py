"""Train T5 on batches of random lengths. What repeats: 14 steps of unequal duration, without any range."""

import random

import torch
from transformers import T5Config, T5ForConditionalGeneration
from truth import tell, timed

STEPS = 14
BATCH = 32

lengths = random.Random(11)  # noqa: S311 - no secret
torch.set_float32_matmul_precision("high")
config = T5Config(vocab_size=8192, d_model=512, d_kv=64, d_ff=2048, num_layers=3, num_heads=8)
config.decoder_start_token_id = 0
config.pad_token_id = 0
model = T5ForConditionalGeneration(config).cuda().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

with timed("training steps", STEPS):
    for step in range(STEPS):
        source = torch.randint(1, 8192, (BATCH, 32 * lengths.randint(2, 20))).cuda()
        target = torch.randint(1, 8192, (BATCH, 16 * lengths.randint(2, 12))).cuda()
        loss = model(input_ids=source, labels=target).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 4:
            print(step, loss.item())
tell("training steps")
