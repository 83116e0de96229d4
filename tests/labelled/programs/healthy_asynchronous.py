"""Launch large matrix products without any NVTX range, and synchronize once at the end.

Healthy: the launches run far ahead of the GPU, which always has work.
"""

import torch

a = torch.rand(6144, 6144, device="cuda", dtype=torch.float16)
b = torch.empty_like(a)
for _ in range(150):
    torch.mm(a, a, out=b)
    b.mul_(0.5)
torch.cuda.synchronize()
print(b[0, 0].item())
