"""Iterate a map in four more blocks than the GPU holds at once; cured: in as many as it holds."""

import torch
import triton
import triton.language as tl
from common import CURED, measure

POINTS, SMS = 2**22, torch.cuda.get_device_properties(0).multi_processor_count
BLOCKS = 2 * SMS if CURED else 2 * SMS + 4


@triton.jit
def iterate(state, points, part, times, block: tl.constexpr):  # noqa: ANN001, ANN201 - Triton's own types
    first = tl.program_id(0) * part
    for offset in range(0, part, block):
        at = first + offset + tl.arange(0, block)
        inside = (offset + tl.arange(0, block) < part) & (at < points)
        x = tl.load(state + at, mask=inside, other=0.5)
        for _ in range(times):
            x = 3.7 * x * (1 - x)
        tl.store(state + at, x, mask=inside)


state = torch.rand(POINTS, device="cuda")


def step() -> None:
    for _ in range(4):
        iterate[(BLOCKS,)](state, POINTS, triton.cdiv(POINTS, BLOCKS), 2000, 1024, num_warps=32)


measure(step, 20)
