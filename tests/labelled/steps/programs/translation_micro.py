"""Train torch.nn.Transformer.

What repeats: 8 steps, `step 1` to `step 8`, of 4 micro-batches with ranges inside.
"""

import torch
from torch import nn
from truth import begin, end, tell

STEPS = 8
MICRO = 4
BATCH = 32
LENGTH = 256

torch.set_float32_matmul_precision("high")
model = nn.Transformer(512, 8, 2, 2, 2048, batch_first=True).cuda().train()
words = nn.Embedding(8000, 512).cuda()
head = nn.Linear(512, 8000).cuda()
parameters = [*model.parameters(), *words.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-4)
mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, device=torch.device("cuda"))
source, target = (torch.randint(0, 8000, (MICRO, BATCH, LENGTH), device="cuda") for _ in range(2))

begin("steps")
begin("micro-batches", wait=False)
for step in range(1, STEPS + 1):
    torch.cuda.nvtx.range_push(f"step {step}")
    for micro in range(MICRO):
        with torch.cuda.nvtx.range(f"micro {micro}"):
            out = head(model(words(source[micro]), words(target[micro]), tgt_mask=mask))
            loss = nn.functional.cross_entropy(out.flatten(0, 1), target[micro].flatten()) / MICRO
            loss.backward()
    with torch.cuda.nvtx.range("update"):
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.nvtx.range_pop()
end("micro-batches", STEPS * MICRO)
end("steps", STEPS)
print(loss.item())
tell("steps")
