"""Copy a batch of 32 MiB from pageable memory in every step, after a start-up of 2 s.

Lost time: the copy blocks the host and takes three times as long as the kernels.
"""

import torch
from common import gpu_work, host_seconds, start_up

start_up(2)
host = torch.rand(8 << 20)
device = torch.empty_like(host, device="cuda")
compute = gpu_work(host_seconds(lambda: device.copy_(host)) / 3)
for _ in range(40):
    with torch.cuda.nvtx.range("step"):
        device.copy_(host)
        compute()
torch.cuda.synchronize()
print(device[0].item())
