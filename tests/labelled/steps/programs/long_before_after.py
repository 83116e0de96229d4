"""Train briefly between a long set-up and long post-processing.

What repeats: 40 training steps in the middle.

The set-up and the post-processing do each thing once, on the host and on the GPU.
"""

import numpy as np
import torch
from torch import nn
from truth import tell, timed

STEPS = 40
BATCH = 8192
ROWS = 60000
WIDTH = 1024

torch.set_float32_matmul_precision("high")
chance = np.random.default_rng(5)
table = chance.standard_normal((ROWS, WIDTH), dtype=np.float32)
order = np.argsort(table[:, 0])
features = torch.from_numpy(table[order]).cuda()
features = (features - features.mean(0)) / features.std(0)
low, high = torch.quantile(features[:8000], 0.01), torch.quantile(features[:8000], 0.99)
features = features.clamp(low.item(), high.item())
basis, _ = torch.linalg.qr(features[:WIDTH].T)
features = features @ basis
target = torch.sin(features[:, :8]).sum(1, keepdim=True)

network = nn.Sequential(
    nn.Linear(WIDTH, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 1)
).cuda()
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
with timed("training steps", STEPS):
    for _ in range(STEPS):
        drawn = torch.randint(0, ROWS, (BATCH,), device="cuda")
        loss = nn.functional.mse_loss(network(features[drawn]), target[drawn])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

with torch.no_grad():
    predicted = network(features)
residual = (predicted - target).flatten().cpu().numpy()
print("median", np.median(np.abs(residual)), "tail", np.sort(residual**2)[-100:].mean())
near = torch.cdist(features[:20000], features[:20000]).topk(10, largest=False).indices
spread = target[near].std(1).mean()
gram = features[:, :512].double().T @ features[:, :512].double()
print(spread.item(), torch.linalg.slogdet(gram).logabsdet.item())
counts, _ = np.histogram(chance.permutation(np.tile(residual, 100)), bins=200)
print(counts.max())
tell("training steps")
