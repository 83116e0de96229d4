"""Compile a function again in every step, because the program resets the compiler in its loop. No NVTX.

Lost time: torch.compile and the loading of what it made. The GPU has about 3 ms of work in each step.
"""

from __future__ import annotations

import os
import tempfile

folder = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder.name  # an empty cache
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # compile in this process

import torch  # noqa: E402 - after the variables


def score(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * 2 + x.cos()).sum()


x = torch.rand(1 << 22, device="cuda")
a = torch.rand(4096, 4096, device="cuda", dtype=torch.float16)
for _ in range(10):
    torch.compiler.reset()
    value = torch.compile(score)(x)
    for _ in range(12):
        product = a @ a
    torch.cuda.synchronize()
print(value.item())
folder.cleanup()
