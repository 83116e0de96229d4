"""Copy from pageable memory for 55 % of each step, run Python code for 25 % and kernels for 20 %.

Lost time: first the copies, then host code.
"""

import torch
from common import gpu_work, host_seconds, host_work

host = torch.rand(16 << 20)  # 64 MiB
device = torch.empty_like(host, device="cuda")
copying = host_seconds(lambda: device.copy_(host))
compute = gpu_work(copying * 20 / 55)
print(f"a copy takes {copying * 1e3:.2f} ms")
for _ in range(40):
    with torch.cuda.nvtx.range("step"):
        device.copy_(host)
        compute()
        torch.cuda.synchronize()
        host_work(copying * 25 / 55)
