"""Mix the rows, the columns and the channels of images in turn, each by a product.

Avoidable: each axis is brought to the end with permute and contiguous, and back.
"""

import torch
from common import measure

CAUSE = "needless permute and contiguous copies"
STEPS, SIDE, CHANNELS = 30, 256, 256
rows, columns, channels = (
    torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) / 16 for _ in range(3)
)
images = torch.randn(32, SIDE, SIDE, CHANNELS, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    x = images.permute(0, 3, 2, 1).contiguous() @ rows
    x = x.permute(0, 3, 2, 1).contiguous()
    x = x.permute(0, 1, 3, 2).contiguous() @ columns
    x = x.permute(0, 1, 3, 2).contiguous()
    torch.matmul(x, channels)


with torch.inference_mode():
    measure(step, STEPS, CAUSE)
