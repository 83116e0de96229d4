"""Wait in each step for a long scan of few blocks on another stream.

Lost time: the kernels of the main stream wait for the scan, which leaves nearly all multiprocessors idle.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from common import measure

LENGTH = 40_000


# Triton compiles annotations too, so only its own are allowed here.
def scan_kernel(x, out, length, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201, N803
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), dtype=tl.float32)
    for time in range(length):
        state = state * 0.99 + tl.load(x + time * 512 + lanes)
        state = tl.exp(-state * state)
    tl.store(out + lanes, state)


scan: Any = triton.jit(scan_kernel)
signal = torch.rand(LENGTH, 512, device="cuda")
state = torch.zeros(512, device="cuda")
weight = torch.randn(512, 2048, device="cuda")
batch = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
side = torch.cuda.Stream()


def step() -> None:
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        scan[(4,)](signal, state, LENGTH, BLOCK=128)
    torch.cuda.current_stream().wait_stream(side)
    x = batch * (state @ weight).bfloat16()
    for _ in range(4):
        x = (x @ batch).tanh()


measure(step, 25, "blocked by a long kernel on another stream")
