"""Train a network, and prepare each batch with 8 ms of Python code in the same thread.

Lost time: host code outside CUDA takes about three quarters of each iteration. 2 s of start-up.
"""

import torch
from common import host_work, make_network, start_up

start_up(2)
network = make_network(2048, 4)
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
batch = torch.rand(8192, 2048, device="cuda")
for _ in range(30):
    with torch.cuda.nvtx.range("iteration"):
        host_work(8e-3)
        optimizer.zero_grad()
        loss = network(batch).square().mean()
        loss.backward()
        optimizer.step()
        value = loss.item()
print(value)
