"""Sort 256 million keys with the radix sort of CUB."""

import torch
from common import measure

STEPS = 30
keys = torch.randint(0, 1 << 30, (1 << 28,), device="cuda", dtype=torch.int32)
measure(lambda: torch.sort(keys), STEPS, "")
