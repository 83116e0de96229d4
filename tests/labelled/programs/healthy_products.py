"""Multiply large matrices, a synchronize at the end of each step.

Healthy: the GPU is idle only for some microseconds of each step of several milliseconds.
"""

import torch

a = torch.rand(8192, 8192, device="cuda", dtype=torch.float16)
out = torch.empty_like(a)
for _ in range(40):
    with torch.cuda.nvtx.range("step"):
        for _ in range(4):
            torch.mm(a, a, out=out)
        torch.cuda.synchronize()
print(out[0, 0].item())
