"""Copy a result of 32 MiB to pageable memory with .cpu() in every step.

Lost time: the copy blocks the host and takes three times as long as the kernels.
"""

import torch
from common import gpu_work, host_seconds

result = torch.rand(8 << 20, device="cuda")
compute = gpu_work(host_seconds(result.cpu) / 3)
for _ in range(24):
    with torch.cuda.nvtx.range("step"):
        compute()
        copy = result.cpu()
print(copy[0].item())
