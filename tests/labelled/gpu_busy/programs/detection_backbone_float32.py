"""Compute the features that a detector of torchvision starts from: ResNet-50 with a feature pyramid.

Avoidable: TF32 is switched off for convolutions, which then run on the FP32 units.
"""

import torch
from common import measure
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

CAUSE = "FP32 convolutions without TF32"
STEPS = 20
torch.backends.cudnn.allow_tf32 = False  # "for reproducible results"
model = resnet_fpn_backbone(backbone_name="resnet50", weights=None).eval().cuda()
images = torch.randn(32, 3, 640, 640, device="cuda")
with torch.inference_mode():
    measure(lambda: model(images), STEPS, CAUSE)
