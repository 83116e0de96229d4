"""Sum eight signals with a Triton kernel, with one program for each; cured: with 128."""

import torch
import triton
import triton.language as tl
from common import CURED, measure

SIGNALS, LENGTH, PARTS = 8, 4_194_304, 128 if CURED else 1


@triton.jit
def add_up(source, sums, length: tl.constexpr, block: tl.constexpr):  # noqa: ANN001, ANN201 - Triton's own types
    start = tl.program_id(0) * length
    total = tl.zeros((block,), tl.float32)
    for offset in range(0, length, block):
        total += tl.load(source + start + offset + tl.arange(0, block))
    tl.store(sums + tl.program_id(0), tl.sum(total, axis=0))


signals = torch.randn(SIGNALS, LENGTH, device="cuda")
sums = torch.empty(SIGNALS, PARTS, device="cuda")
matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    add_up[(SIGNALS * PARTS,)](signals, sums, LENGTH // PARTS, 1024)
    sums.sum(dim=1)
    torch.mm(matrix, matrix)


measure(step, 30)
