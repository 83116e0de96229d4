"""Stream pinned blocks through the GPU with two buffers and a stream for copies.

Nothing is lost: the kernels of a block take several times as long as the copy of the next one beside them.
"""

import torch
from common import report, start

STEPS = 50
blocks = [torch.ones(16 << 20, dtype=torch.float32, pin_memory=True) for _ in range(2)]
buffers = [torch.empty_like(block, device="cuda") for block in blocks]
copied, used = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
copying, computing = torch.cuda.Stream(), torch.cuda.current_stream()
weight = torch.eye(4096, device="cuda", dtype=torch.bfloat16)
total = torch.zeros((), device="cuda")


def step(number: int) -> None:
    side = number % 2
    with torch.cuda.stream(copying):
        copying.wait_event(used[side])
        buffers[side].copy_(blocks[side], non_blocking=True)
        copied[side].record(copying)
    computing.wait_event(copied[side])
    x = buffers[side].view(-1, 4096).bfloat16()
    for _ in range(24):
        x = x @ weight
    total.add_(x.float().sum())
    used[side].record(computing)


for number in range(2):
    step(number)
started = start()
for number in range(STEPS):
    step(number)
report("none: the copies are hidden", STEPS, started)
print(total.item())
