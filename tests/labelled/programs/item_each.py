"""Read every result on the host with .item(), 20 times per range `update`.

Lost time: each .item() waits for the GPU, which then waits for the next launch.
"""

import torch

x = torch.rand(1 << 20, device="cuda")
total = 0.0
for _ in range(60):
    with torch.cuda.nvtx.range("update"):
        for _ in range(20):
            total += x.sum().item()
print(total)
