"""Train with a host that runs at most 10 steps ahead. What repeats: 60 steps, without any range."""

from collections import deque

import torch
from torch import nn
from truth import tell, timed

STEPS = 60
AHEAD = 10
BATCH = 96
LENGTH = 512

torch.set_float32_matmul_precision("high")
layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True)
model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).cuda().train()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(BATCH, LENGTH, 1024, device="cuda")
pending: deque[torch.cuda.Event] = deque()

with timed("steps", STEPS):
    for _ in range(STEPS):
        if len(pending) == AHEAD:
            pending.popleft().synchronize()
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done = torch.cuda.Event()
        done.record()
        pending.append(done)
print(loss.item())
tell("steps")
