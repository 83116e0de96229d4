"""Upload images as numpy's FP64 to a network of torchvision; cured: as bytes, which the GPU scales."""

import numpy as np
import torch
import torchvision
from common import CURED, measure

rng = np.random.default_rng(0)
files = [rng.integers(0, 256, (192, 3, 224, 224), dtype=np.uint8) for _ in range(2)]
batches = [torch.from_numpy(images if CURED else images / 255.0).pin_memory() for images in files]
buffers = [batch.cuda() for batch in batches]
model = torchvision.models.mobilenet_v3_small().eval().cuda().bfloat16().to(memory_format=torch.channels_last)
copied, used = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
copying, computing = torch.cuda.Stream(), torch.cuda.current_stream()
number = 0


def step() -> None:
    global number  # noqa: PLW0603 - which of the two buffers
    number = 1 - number
    with torch.cuda.stream(copying):
        copying.wait_event(used[number])
        buffers[number].copy_(batches[number], non_blocking=True)
        copied[number].record(copying)
    computing.wait_event(copied[number])
    images = buffers[number].bfloat16()
    used[number].record(computing)
    model((images / 255 if CURED else images).contiguous(memory_format=torch.channels_last))


with torch.inference_mode():
    measure(step, 20)
