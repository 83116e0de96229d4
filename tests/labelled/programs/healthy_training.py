"""Train a network whose layers are large enough, after a start-up of 2.5 s.

Healthy: a step has some 50 launches, which take far less time than the kernels.
The loss is read every tenth step.
"""

import torch
from common import make_network, start_up

start_up(2.5)
network = make_network(4096, 6)
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
batch = torch.rand(4096, 4096, device="cuda")
for step in range(40):
    with torch.cuda.nvtx.range("step"):
        optimizer.zero_grad()
        loss = network(batch).square().mean()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(step, loss.item())
torch.cuda.synchronize()
