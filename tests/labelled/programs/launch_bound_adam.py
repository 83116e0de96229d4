"""Train a small network with an Adam that launches several kernels per parameter, without NVTX.

Lost time: more than 100 launches of 2 us kernels per step. The start-up of 3.5 s is no part of it.
"""

import torch
from common import make_network, start_up

start_up(3.5)
network = make_network(128, 5)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, foreach=False)
batch = torch.rand(64, 128, device="cuda")
for _ in range(30):
    optimizer.zero_grad()
    loss = network(batch).square().mean()
    loss.backward()
    optimizer.step()
torch.cuda.synchronize()
print(loss.item())
