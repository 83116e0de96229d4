"""Sum each of 1024 rows of 16 GB, which reads each value once at memory speed."""

import torch
from common import measure

STEPS = 40
values = torch.ones(1024, 4 << 20, device="cuda")
measure(lambda: values.sum(dim=1), STEPS, "")
