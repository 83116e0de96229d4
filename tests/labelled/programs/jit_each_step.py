"""Call a Triton kernel with a new constant in every step, so that it is compiled in every step.

Lost time: compiling and loading the kernel. The GPU has 2 ms of work in each step.
"""

import os
import tempfile
from typing import Any

folder = tempfile.TemporaryDirectory()
os.environ["TRITON_CACHE_DIR"] = folder.name  # an empty cache

import torch  # noqa: E402 - after the variable
import triton  # noqa: E402 - after the variable
import triton.language as tl  # noqa: E402 - after the variable
from common import gpu_work  # noqa: E402 - after the variable


# Triton compiles annotations too, so only its own are allowed here.
def scaled_kernel(x, FACTOR: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, N803
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offsets, tl.load(x + offsets) * FACTOR + 1)


scaled: Any = triton.jit(scaled_kernel)
compute = gpu_work(2e-3)
values = torch.zeros(1 << 20, device="cuda")
for step in range(24):
    with torch.cuda.nvtx.range("step"):
        scaled[(1024,)](values, FACTOR=step + 2, BLOCK=1024)
        compute()
        torch.cuda.synchronize()
print(values[0].item())
folder.cleanup()
