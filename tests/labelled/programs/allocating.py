"""Allocate 6 GiB in every step and give it back with empty_cache(), after a start-up of 2 s.

Lost time: cudaMalloc and cudaFree, which waits for the GPU. The kernels take a third of that time.
"""

import torch
from common import gpu_work, host_seconds, start_up

start_up(2)


def allocate() -> None:
    tensors = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(6)]
    del tensors
    torch.cuda.empty_cache()


compute = gpu_work(host_seconds(allocate) / 3)
for _ in range(40):
    with torch.cuda.nvtx.range("step"):
        compute()
        allocate()
torch.cuda.synchronize()
