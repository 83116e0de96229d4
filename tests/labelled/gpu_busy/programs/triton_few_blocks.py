"""Smooth eight long signals with a Triton kernel, one program a signal, then project them.

Avoidable: eight programs leave more than a hundred multiprocessors without work; the signals could be cut.
"""

import torch
import triton
import triton.language as tl
from common import measure

CAUSE = "a kernel with a grid of eight blocks"
STEPS, SIGNALS, LENGTH = 30, 8, 1 << 20


@triton.jit
def smooth(source, target, length: tl.constexpr, block: tl.constexpr):  # noqa: ANN001, ANN201 - Triton's own types
    start = tl.program_id(0) * length
    level = 0.0
    for offset in range(0, length, block):
        at = start + offset + tl.arange(0, block)
        x = tl.load(source + at)
        level = 0.5 * level + 0.5 * (tl.sum(x, axis=0) / block)
        tl.store(target + at, 0.9 * x + 0.1 * level)


signals = torch.randn(SIGNALS, LENGTH, device="cuda")
smoothed = torch.empty_like(signals)
matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    smooth[(SIGNALS,)](signals, smoothed, LENGTH, 1024)
    windows = smoothed.view(-1, 4096).bfloat16()
    for _ in range(4):
        windows = windows @ matrix


measure(step, STEPS, CAUSE)
