"""Sum the messages of a graph's edges into 64 groups of nodes.

Avoidable: millions of atomic additions meet in the same few rows; a product with a one-hot matrix has none.
"""

import torch
from common import measure

CAUSE = "scattered additions with many duplicate indices"
STEPS, EDGES, WIDTH, GROUPS = 25, 1 << 20, 256, 64
messages = torch.randn(EDGES, WIDTH, device="cuda")
group = torch.randint(0, GROUPS, (EDGES,), device="cuda")
weight = torch.randn(WIDTH, WIDTH, device="cuda")
torch.set_float32_matmul_precision("high")


def step() -> None:
    sums = torch.zeros(GROUPS, WIDTH, device="cuda")
    sums.index_add_(0, group, messages @ weight)


measure(step, STEPS, CAUSE)
