"""Run a kernel of a single block for several milliseconds in every step.

Lost time: the GPU is busy all the time, but only one of its multiprocessors works.
"""

from typing import Any

import torch
import triton
import triton.language as tl


# Triton compiles annotations too, so only its own are allowed here.
def recurrence_kernel(x, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, N803
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    for _ in range(count):
        value = value * 0.999 + 0.001
    tl.store(x + offsets, value)


recurrence: Any = triton.jit(recurrence_kernel)
values = torch.zeros(1024, device="cuda")
# As a multiple of 16 this count is specialized like the one below.
recurrence[(1,)](values, 16_000, BLOCK=1024)
torch.cuda.synchronize()
for _ in range(40):
    with torch.cuda.nvtx.range("step"):
        recurrence[(1,)](values, 500_000, BLOCK=1024)
        torch.cuda.synchronize()
print(values[0].item())
