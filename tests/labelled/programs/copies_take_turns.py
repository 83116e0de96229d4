"""Copy to the GPU, compute and copy back on one stream, from and to pinned memory. No NVTX.

Lost time: nothing runs during the copies, which take as long as the kernels. A second stream would hide them.
"""

import torch
from common import gpu_work, start_up

start_up(1.6)
compute = gpu_work(2.5e-3)
source = torch.rand(16 << 20).pin_memory()  # 64 MiB
target = torch.empty_like(source).pin_memory()
device = torch.empty_like(source, device="cuda")
for _ in range(50):
    device.copy_(source, non_blocking=True)
    compute()
    target.copy_(device, non_blocking=True)
torch.cuda.synchronize()
print(target[0].item())
