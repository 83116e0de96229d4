"""Mix the columns of images: their axis is brought to the end and back; cured: a product from the left."""

import torch
from common import CURED, measure

SIDE, CHANNELS = 256, 256
matrices = [torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) / 16 for _ in range(4)]
images = torch.randn(4096, SIDE, CHANNELS, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    x = images
    for matrix in matrices:
        if CURED:
            x = matrix.T @ x
        else:
            x = x.transpose(1, 2).contiguous() @ matrix
            x = x.transpose(1, 2).contiguous()


measure(step, 30)
