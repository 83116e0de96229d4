"""Run ResNet-18 of torchvision in BF16 and channels_last, compiled."""

import torch
import torchvision
from common import measure

STEPS = 30
model = torchvision.models.resnet18(weights=None).eval().cuda().bfloat16()
model = model.to(memory_format=torch.channels_last)
images = torch.randn(1024, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
images = images.to(memory_format=torch.channels_last)
compiled = torch.compile(model)
with torch.no_grad():
    measure(lambda: compiled(images), STEPS, "")
