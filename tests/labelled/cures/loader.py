"""Decode samples in the training thread; cured: in four workers."""

import time
from contextlib import ExitStack

import torch
import torch.utils.data
from common import CURED, timed

STEPS, WARM_UP = 50, 10


class Samples(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 16 * (STEPS + WARM_UP)

    def __getitem__(self, number: int) -> torch.Tensor:
        time.sleep(1.5e-3)  # a slow decoder
        return torch.full((4096,), number / 1000)


if __name__ == "__main__":
    weight = torch.randn(4096, 4096, device="cuda")
    loader = torch.utils.data.DataLoader(Samples(), batch_size=16, num_workers=4 if CURED else 0)
    with ExitStack() as timing:
        for number, batch in enumerate(loader):
            if number == WARM_UP:
                timing.enter_context(timed(STEPS))
            x = batch.cuda()
            for _ in range(10):
                x = (x @ weight).tanh()
    print(x.mean().item())
