"""Fork two workers without an exec that add vectors on the GPU: ``forked.py _exit|return [parent]``.

With ``parent`` this process launches work, too, after it forked.
"""

import os
import sys
import time


def add() -> None:
    """Launch ten additions."""
    import torch  # noqa: PLC0415 - after the fork: CUDA cannot be used across one

    values = torch.ones(1024, device="cuda")
    for _ in range(10):
        values = values + 1
    torch.cuda.synchronize()
    time.sleep(1)  # nsyswrap looks at the processes twice a second


def main(ending: str, *where: str) -> None:
    """Fork the workers and wait for them."""
    workers = []
    for _ in range(2):
        worker = os.fork()
        if worker == 0:
            add()
            if ending == "_exit":
                os._exit(0)
            return
        workers.append(worker)
    if where:
        add()
    for worker in workers:
        os.waitpid(worker, 0)


main(*sys.argv[1:])
