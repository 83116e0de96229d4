"""Accumulate gradients over four micro-batches per optimizer step; no range waits for the GPU.

Healthy: the ranges organize the code and measure nothing, so what they enclose on the host is no finding.
"""

import torch
from common import make_network

network = make_network(4096, 4)
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
batch = torch.rand(4096, 4096, device="cuda")
for _ in range(14):
    for _ in range(4):
        with torch.cuda.nvtx.range("forward"):
            loss = network(batch).square().mean()
        with torch.cuda.nvtx.range("backward"):
            (loss / 4).backward()
    with torch.cuda.nvtx.range("optimizer"):
        optimizer.step()
        optimizer.zero_grad()
torch.cuda.synchronize()
print(loss.item())
