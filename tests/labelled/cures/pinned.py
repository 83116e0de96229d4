"""Copy batches from pageable memory; cured: from pinned memory, without waiting for the copy."""

import torch
from common import CURED, timed

STEPS = 60
batches = [torch.rand(16384, 1024) for _ in range(4)]
if CURED:
    batches = [batch.pin_memory() for batch in batches]
weight = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)


def step(number: int) -> torch.Tensor:
    x = batches[number % 4].cuda(non_blocking=CURED)
    return (x.bfloat16() @ weight).relu().mean()


for number in range(4):
    step(number)
with timed(STEPS):
    for number in range(STEPS):
        result = step(number)
print(result.item())
