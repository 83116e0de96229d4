"""Train an MLP in BF16 whose hidden width is 8191.

Avoidable: rows that do not start at multiples of 16 bytes keep cuBLAS from its fast kernels.
"""

import torch
from common import measure

CAUSE = "misaligned BF16 dimensions: an odd hidden width"
STEPS, WIDTH = 20, 8191
model = torch.nn.Sequential(
    torch.nn.Linear(4096, WIDTH), torch.nn.ReLU(inplace=True), torch.nn.Linear(WIDTH, 4096)
)
model = model.cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(16384, 4096, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    model(x).mean(dtype=torch.float32).backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, CAUSE)
