"""Mix the columns of images, with their axis brought to the end and back."""

import time

import torch

STEPS, SIDE, CHANNELS = 30, 256, 256
matrices = [torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) / 16 for _ in range(4)]
images = torch.randn(4096, SIDE, CHANNELS, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    x = images
    for matrix in matrices:
        x = x.transpose(1, 2).contiguous() @ matrix
        x = x.transpose(1, 2).contiguous()


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
