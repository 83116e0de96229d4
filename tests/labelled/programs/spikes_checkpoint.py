"""Train for 100 steps and write a checkpoint in every 25th, after a start-up of 2 s.

Lost time: the checkpoints, each of which takes as long as ten steps or more. The other steps are healthy.
"""

import tempfile
from pathlib import Path

import torch
from common import gpu_work, start_up

start_up(2)
compute = gpu_work(4e-3)
weights = [torch.rand(8 << 20, device="cuda") for _ in range(4)]  # 128 MiB
with tempfile.TemporaryDirectory() as folder:
    for step in range(1, 101):
        with torch.cuda.nvtx.range("step"):
            compute()
            weights[step % 4].mul_(0.999)
            torch.cuda.synchronize()
            if step % 25 == 0:
                torch.save([weight.cpu() for weight in weights], Path(folder) / f"{step}.pt")
print(weights[0][0].item())
