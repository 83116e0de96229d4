"""Train with a graphed network between eager parts.

What repeats: 60 ranges `update`, with a replay in each.
"""

import torch
from torch import nn
from truth import tell, timed

UPDATES = 60
BATCH = 8192
WIDTH = 2048

torch.set_float32_matmul_precision("high")
layers = [module for _ in range(5) for module in (nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH))]
network = nn.Sequential(*layers).cuda()
graphed = torch.cuda.make_graphed_callables(network, (torch.rand(BATCH, WIDTH, device="cuda"),))
value = nn.Linear(WIDTH, 1).cuda()
optimizer = torch.optim.Adam([*network.parameters(), *value.parameters()], lr=1e-4, foreach=True)
memory = torch.rand(4 * BATCH, WIDTH, device="cuda")
rewards = torch.rand(4 * BATCH, 1, device="cuda")

with timed("updates", UPDATES):
    for _ in range(UPDATES):
        with torch.cuda.nvtx.range("update"):
            drawn = torch.randint(0, len(memory), (BATCH,), device="cuda")
            states = memory[drawn] + 0.01 * torch.randn(BATCH, WIDTH, device="cuda")
            loss = nn.functional.smooth_l1_loss(value(graphed(states)), rewards[drawn])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
print(loss.item())
tell("updates")
