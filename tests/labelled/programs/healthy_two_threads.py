"""Run two independent loops of matrix products in two threads on two streams; only one has NVTX ranges.

Healthy: each loop alone would keep the GPU busy.
"""

import threading

import torch
from common import gpu_work

works = [gpu_work(2e-3) for _ in range(2)]
torch.cuda.synchronize()


def named() -> None:
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(50):
            with torch.cuda.nvtx.range("tick"):
                works[0]()
                torch.cuda.current_stream().synchronize()


def unnamed() -> None:
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(50):
            works[1]()
            torch.cuda.current_stream().synchronize()


threads = [threading.Thread(target=loop) for loop in (named, unnamed)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
torch.cuda.synchronize()
