"""Copy 500 small tensors to the GPU one by one; cured: gather them on the host, and copy them at once."""

import torch
from common import CURED, measure

samples = [torch.rand(64) for _ in range(500)]
weight = torch.randn(64, 64, device="cuda")


def step() -> torch.Tensor:
    batch = torch.stack(samples).cuda() if CURED else torch.stack([sample.cuda() for sample in samples])
    return (batch @ weight).relu().mean()


print(measure(step, 30).item())
