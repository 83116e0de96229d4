"""Wait for a slow disk for more than half of each step, then launch 120 tiny operations. No NVTX.

Lost time: first the wait for input, then launches; the kernels take a tenth. 1.8 s of start-up.
"""

import time

import torch
from common import host_seconds, start_up

start_up(1.8)
x = torch.rand(4096, device="cuda")


def tiny_operations() -> None:
    for _ in range(60):
        x.mul_(0.9)
        x.add_(0.1)


launching = host_seconds(tiny_operations)
print(f"the tiny operations take {launching * 1e3:.2f} ms")
for _ in range(40):
    time.sleep(1.5 * launching)  # a slow disk
    tiny_operations()
    torch.cuda.synchronize()
