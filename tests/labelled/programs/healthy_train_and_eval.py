"""Alternate between five training steps and three evaluation steps, each kind in its own range.

Healthy: both kinds keep the GPU busy. There is no single repeated step.
"""

import torch
from common import make_network, start_up

start_up(1.8)
network = make_network(4096, 4)
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
batch = torch.rand(8192, 4096, device="cuda")
for epoch in range(7):
    for _ in range(5):
        with torch.cuda.nvtx.range("train"):
            optimizer.zero_grad()
            loss = network(batch).square().mean()
            loss.backward()
            optimizer.step()
    for _ in range(3):
        with torch.cuda.nvtx.range("eval"), torch.no_grad():
            score = network(batch).mean()
    print(epoch, loss.item(), score.item())
