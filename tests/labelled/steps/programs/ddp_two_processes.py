"""Train in two processes with DistributedDataParallel over Gloo. What repeats: 20 steps in each process."""

import os
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from truth import LOOPS, tell, timed

STEPS = 20
BATCH = 4096
WIDTH = 2048


def work(rank: int, store: str, seconds: Any) -> None:  # noqa: ANN401 - an array that processes share
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.set_float32_matmul_precision("high")
    torch.cuda.set_device(rank % torch.cuda.device_count())  # one GPU serves both if there is no second
    network = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(WIDTH, WIDTH), nn.GELU()))).cuda()
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x = torch.rand(BATCH, WIDTH, device="cuda")
    with timed("training steps", STEPS):
        for _ in range(STEPS):
            with torch.cuda.nvtx.range("ddp step"):
                loss = model(x).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    seconds[rank] = LOOPS["training steps"]["seconds"]
    print(rank, loss.item())
    torch.distributed.destroy_process_group()


def main() -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    seconds = multiprocessing.get_context("spawn").Array("d", 2)
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(work, (str(Path(folder) / "store"), seconds), nprocs=2)
    LOOPS["training steps"] = {"label": "training steps", "count": STEPS, "seconds": round(max(seconds), 6)}
    tell("training steps")


if __name__ == "__main__":
    main()
