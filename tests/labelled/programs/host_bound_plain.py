"""Do 6 ms of Python work in every step, and launch 2 ms of GPU work before it. No NVTX.

Lost time: the host is busy with lists while the GPU has nothing to do.
"""

import torch
from common import gpu_work, host_work

compute = gpu_work(2e-3)
for _ in range(60):
    compute()
    host_work(6e-3)
torch.cuda.synchronize()
