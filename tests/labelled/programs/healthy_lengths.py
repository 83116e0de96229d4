"""Train on sequences of a random length in every step, after a start-up of 1.6 s.

Healthy: the longest step takes several times as long as the shortest, and the GPU is busy in each.
"""

import random

import torch
from common import make_network, start_up

start_up(1.6)
lengths = random.Random(7)  # noqa: S311 - no secret
network = make_network(4096, 4)
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
longest = torch.rand(12288, 4096, device="cuda")
network(longest).mean().backward()  # the allocator keeps what the longest needs
for _ in range(40):
    with torch.cuda.nvtx.range("batch"):
        batch = longest[: 1024 * lengths.randint(2, 12)]
        optimizer.zero_grad()
        loss = network(batch).square().mean()
        loss.backward()
        optimizer.step()
torch.cuda.synchronize()
print(loss.item())
