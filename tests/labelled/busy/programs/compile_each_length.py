"""Call a compiled function with a new length in each step, without dynamic shapes.

Lost time: torch.compile compiles the function again in every step.
"""

import os
import tempfile

folder = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder.name  # an empty cache
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import torch  # noqa: E402 - after the variables
import torch._dynamo  # noqa: E402 - after the variables
from common import report, start  # noqa: E402 - after the variables

STEPS = 10
torch._dynamo.config.recompile_limit = 64  # noqa: SLF001 - documented, and has no other name


@torch.compile(dynamic=False)
def activation(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x * scale) * torch.sigmoid(x)


weight = torch.randn(1024, 1024, device="cuda")
scale = torch.ones(1024, device="cuda")
activation(torch.randn(512, 1024, device="cuda") @ weight, scale)
started = start()
for step in range(STEPS):
    x = torch.randn(1024 + 64 * step, 1024, device="cuda")
    for _ in range(8):
        x = activation(x @ weight * 0.01, scale)
report("recompiling in each step: a new shape each time", STEPS, started)
folder.cleanup()
