"""Average a loss over groups of tokens, each picked with a boolean mask.

Lost time: each mask waits for the number of its tokens, and the GPU idles until the next group is launched.
"""

import torch
from common import report, start

STEPS, GROUPS = 30, 32
losses = torch.rand(1 << 20, device="cuda")
groups = torch.randint(0, GROUPS, losses.shape, device="cuda")


def group_means() -> torch.Tensor:
    means = []
    for group in range(GROUPS):
        picked = losses[groups == group]
        means.append(picked.sum() / max(len(picked), 1))
    return torch.stack(means)


group_means()
started = start()
for _ in range(STEPS):
    losses = losses * 0.999 + group_means().mean() * 0.001
report("hidden synchronizations: boolean mask indexing", STEPS, started)
