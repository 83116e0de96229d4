"""Read batches with a DataLoader without workers from a slow data set. No NVTX.

Lost time: 8 samples of 1.2 ms each are read in the training thread before every step of 2 ms.
"""

import tempfile
import time
from pathlib import Path

import torch
import torch.utils.data
from common import gpu_work, start_up

start_up(1.5)
compute = gpu_work(2e-3)
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "samples"
path.write_bytes(bytes(4096))


class Samples:
    def __len__(self) -> int:
        return 8 * 40

    def __getitem__(self, number: int) -> torch.Tensor:
        content = path.read_bytes()
        time.sleep(1.2e-3)  # a slow disk
        return torch.full((1024,), float(content[number]))


for batch in torch.utils.data.DataLoader(Samples(), batch_size=8, num_workers=0):
    x = batch.cuda()
    compute()
    total = x.sum().item()
print(total)
folder.cleanup()
