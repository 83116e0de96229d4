"""Add two vectors with Triton on the GPU and compare the sum with the CPU's."""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl

_COUNT, _BLOCK = 4096, 1024


@triton.jit  # type: ignore[untyped-decorator]
def _add(a, b, total, block: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - compiled
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(total + offsets, tl.load(a + offsets) + tl.load(b + offsets))


if __name__ == "__main__":
    a = torch.arange(_COUNT, dtype=torch.float32)
    b = torch.full_like(a, 0.5)
    total = torch.empty_like(a, device="cuda")
    _add[(_COUNT // _BLOCK,)](a.cuda(), b.cuda(), total, block=_BLOCK)
    if not torch.equal(total.cpu(), a + b):
        sys.exit("the sum differs from the CPU's")
