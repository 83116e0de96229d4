"""Serve requests that arrive every 5 to 15 ms, each in 1 to 2 ms, after a start-up of 2 s.

Lost time: the server waits for requests; between them the GPU has nothing to do.
"""

from __future__ import annotations

import queue
import random
import threading
import time

import torch
from pieces import start_up

start_up(2)
REQUESTS = 50
torch.set_float32_matmul_precision("high")
layers = [torch.nn.Linear(4096, 4096) for _ in range(3)]
network = torch.nn.Sequential(*layers).cuda().eval()
requests: queue.Queue[torch.Tensor] = queue.Queue()


def arrive() -> None:
    pauses = random.Random(7)  # noqa: S311 - no secret
    for _ in range(REQUESTS):
        time.sleep(pauses.uniform(5e-3, 15e-3))
        requests.put(torch.rand(32, 4096))


with torch.no_grad():
    network(torch.rand(4096, 4096, device="cuda")).cpu()
    threading.Thread(target=arrive, daemon=True).start()
    for _ in range(REQUESTS):
        request = requests.get()
        with torch.cuda.nvtx.range("serve"):
            answer = network(request.cuda().repeat(128, 1)).sum(0).cpu()
print(answer[0].item())
