"""Train with DistributedDataParallel on two GPUs, where rank 1 has sequences three times as long.

Lost time: rank 0 waits in the all-reduce of the gradients until rank 1 is done.
"""

import os
import socket

import torch
import torch.distributed
import torch.multiprocessing
from common import report, start
from torch.nn.parallel import DistributedDataParallel

STEPS = 30


def train(rank: int, port: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NCCL_NVLS_ENABLE": "0"}
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=2)
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
    model = DistributedDataParallel(encoder, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(16, 1536 if rank == 1 else 512, 1024, device="cuda")

    def train_step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        train_step()
    torch.distributed.barrier()
    began = start()
    for _ in range(STEPS):
        train_step()
    torch.cuda.synchronize()
    if rank == 0:
        report("rank 0 waits for rank 1, which has more work", STEPS, began)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    torch.multiprocessing.spawn(train, args=(number,), nprocs=2)
