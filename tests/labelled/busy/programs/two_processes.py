"""Share a GPU between two processes that hand it to each other after every step.

Lost time: each process waits half of the time for its turn, and the GPU idles during each hand-over.
"""

from typing import Any

import torch
import torch.multiprocessing
from common import report, start

STEPS = 60


def work(rank: int, turns: list[Any], ready: Any) -> None:  # noqa: ANN401 - a barrier
    weight = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    x = weight @ weight
    torch.cuda.synchronize()
    mine, other = turns[rank], turns[1 - rank]
    ready.wait()
    began = start()
    for _ in range(STEPS):
        mine.acquire()
        for _ in range(20):
            x = (x @ weight).tanh()
        torch.cuda.synchronize()
        other.release()
    if rank == 0:
        report("two processes take turns on one GPU", STEPS, began)


if __name__ == "__main__":
    context = torch.multiprocessing.get_context("spawn")
    semaphores = [context.Semaphore(1), context.Semaphore(0)]
    torch.multiprocessing.spawn(work, args=(semaphores, context.Barrier(2)), nprocs=2)
