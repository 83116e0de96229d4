"""Turn class scores of pixels into probabilities, with the classes on an axis before a short one.

Avoidable: the softmax along a strided axis; with the classes last it would run at memory speed.
"""

import torch
from common import measure

CAUSE = "softmax over a strided axis"
STEPS = 25
scores = torch.randn(65_536, 2048, 4, device="cuda", dtype=torch.bfloat16)


def step() -> None:
    probabilities = torch.softmax(scores, dim=1)
    probabilities.amax(dim=2)


with torch.inference_mode():
    measure(step, STEPS, CAUSE)
