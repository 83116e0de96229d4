"""Score features that are streamed from pinned memory in FP32, with two buffers and a stream for copies.

Avoidable: the copies overlap the kernels, but take longer; the features are only used in BF16.
"""

import torch
from common import measure

CAUSE = "overlapped copies to the device of twice the bytes that are used"
STEPS, ROWS, WIDTH = 30, 65_536, 2048
blocks = [torch.ones(ROWS, WIDTH, pin_memory=True) for _ in range(2)]
buffers = [torch.empty(ROWS, WIDTH, device="cuda") for _ in range(2)]
weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) / 45 for _ in range(4)]
copied, used = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
copying, computing = torch.cuda.Stream(), torch.cuda.current_stream()
number = 0


def step() -> None:
    global number  # noqa: PLW0603 - which of the two buffers
    number = 1 - number
    with torch.cuda.stream(copying):
        copying.wait_event(used[number])
        buffers[number].copy_(blocks[number], non_blocking=True)
        copied[number].record(copying)
    computing.wait_event(copied[number])
    x = buffers[number].bfloat16()
    used[number].record(computing)
    for weight in weights:
        x = (x @ weight).relu_()


with torch.inference_mode():
    measure(step, STEPS, CAUSE)
