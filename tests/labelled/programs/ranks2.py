"""Average gradients of two ranks, a GPU each, in one capture. Argument: `straggler` (default) or `even`.

Lost time of straggler: rank 1 computes for 6 ms and rank 0 for 3 ms, then rank 0 waits in the all-reduce.
Lost time of even: an all-reduce of 2 GiB that nothing overlaps, longer than the computation.
"""

import os
import socket
import sys

import torch
import torch.distributed
import torch.multiprocessing
from common import gpu_work


def run_rank(rank: int, variant: str, port: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NCCL_NVLS_ENABLE": "0"}
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=2)
    late = variant == "straggler" and rank == 1
    compute = gpu_work(6e-3 if late else 3e-3)
    gradients = torch.zeros(4 << 20 if variant == "straggler" else 512 << 20, device="cuda")
    torch.distributed.all_reduce(gradients)
    torch.cuda.synchronize()
    for _ in range(30):
        with torch.cuda.nvtx.range("step"):
            compute()
            torch.distributed.all_reduce(gradients)
            value = gradients[0].item()
    print(rank, value)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    chosen = sys.argv[1] if len(sys.argv) > 1 else "straggler"
    torch.multiprocessing.spawn(run_rank, args=(chosen, number), nprocs=2)
