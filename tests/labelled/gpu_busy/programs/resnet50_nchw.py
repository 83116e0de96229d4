"""Run ResNet-50 of torchvision in BF16 in PyTorch's default layout.

Avoidable: tensor cores want NHWC, so cuDNN converts NCHW around the convolutions.
"""

import torch
import torchvision
from common import measure

CAUSE = "NCHW layout in a BF16 convolutional network"
STEPS = 20
model = torchvision.models.resnet50(weights=None).eval().cuda().bfloat16()
images = torch.randn(384, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    measure(lambda: model(images), STEPS, CAUSE)
