"""Run Swin-T of torchvision in BF16, whose attention in windows is written out.

Avoidable: scaling, bias, softmax and both products of the attention are kernels of their own.
"""

import torch
import torchvision
from common import measure

CAUSE = "attention written out, in windows"
STEPS = 20
model = torchvision.models.swin_t(weights=None).eval().cuda().bfloat16()
images = torch.randn(256, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    measure(lambda: model(images), STEPS, CAUSE)
