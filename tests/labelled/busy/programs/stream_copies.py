"""Stream pinned blocks through the GPU with two buffers and a stream for copies.

Lost time: the copies overlap the kernels, yet take several times as long: the link is the limit.
"""

import torch
from common import report, start

STEPS = 50
blocks = [torch.ones(64 << 20, dtype=torch.float32, pin_memory=True) for _ in range(2)]
buffers = [torch.empty_like(block, device="cuda") for block in blocks]
copied, used = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
copying, computing = torch.cuda.Stream(), torch.cuda.current_stream()
total = torch.zeros((), device="cuda")


def step(number: int) -> None:
    side = number % 2
    with torch.cuda.stream(copying):
        copying.wait_event(used[side])
        buffers[side].copy_(blocks[side], non_blocking=True)
        copied[side].record(copying)
    computing.wait_event(copied[side])
    total.add_((buffers[side] * 2).sqrt().sum())
    used[side].record(computing)


for number in range(2):
    step(number)
started = start()
for number in range(STEPS):
    step(number)
report("copy-bound although the copies overlap", STEPS, started)
print(total.item())
