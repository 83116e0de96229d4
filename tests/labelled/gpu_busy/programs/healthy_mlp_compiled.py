"""Run a gated MLP whose elementwise part torch.compile fuses into one kernel."""

import torch
from common import measure
from torch.nn import functional

STEPS, WIDTH = 40, 4096
gate, up = (torch.randn(4 * WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) / 64 for _ in range(2))
down = torch.randn(WIDTH, 4 * WIDTH, device="cuda", dtype=torch.bfloat16) / 128
x = torch.randn(16384, WIDTH, device="cuda", dtype=torch.bfloat16)


@torch.compile
def feed_forward(x: torch.Tensor) -> torch.Tensor:
    hidden = functional.silu(functional.linear(x, gate)) * functional.linear(x, up)
    return x + functional.linear(hidden, down)


measure(lambda: feed_forward(x), STEPS, "")
