"""Segment images with FCN of torchvision in FP32.

Avoidable: TF32 is off for convolutions; most of the time is theirs.
"""

import torch
import torchvision
from common import measure

CAUSE = "FP32 convolutions without TF32"
STEPS = 20
torch.backends.cudnn.allow_tf32 = False
model = torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None).eval().cuda()
images = torch.randn(16, 3, 448, 448, device="cuda")
with torch.inference_mode():
    measure(lambda: model(images), STEPS, CAUSE)
