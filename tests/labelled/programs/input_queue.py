"""Take batches from a queue that a producer thread fills too slowly, in ranges `data` and `train`.

Lost time: a batch takes 9 ms to arrive and 2 ms to train on.
"""

import queue
import threading
import time

import torch
from common import gpu_work, start_up

start_up(2)
STEPS = 40
compute = gpu_work(2e-3)
batches: queue.Queue[torch.Tensor] = queue.Queue(maxsize=4)


def produce() -> None:
    for _ in range(STEPS):
        time.sleep(9e-3)  # a slow disk
        batches.put(torch.rand(64, 256))


threading.Thread(target=produce, daemon=True).start()
for _ in range(STEPS):
    with torch.cuda.nvtx.range("data"):
        batch = batches.get()
    with torch.cuda.nvtx.range("train"):
        x = batch.cuda()
        compute()
        total = x.sum().item()
print(total)
