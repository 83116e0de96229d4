"""Compile a network at its first use, and then train it.

Nothing is lost in its steps: compiling takes seconds, once, before the first step.
"""

import os
import tempfile

folder = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder.name  # an empty cache
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import torch  # noqa: E402 - after the variables
from common import measure  # noqa: E402 - after the variables

torch.set_float32_matmul_precision("high")
layers = [torch.nn.Linear(2048, 2048), torch.nn.GELU(), torch.nn.LayerNorm(2048)]
model = torch.compile(torch.nn.Sequential(*layers, torch.nn.Linear(2048, 2048)).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(16384, 2048, device="cuda")


def train_step() -> None:
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


measure(train_step, 60, "none in the steps: compiled at first use only", warm_up=3)
folder.cleanup()
