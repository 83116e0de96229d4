"""Run ResNet-50 of torchvision in channels_last from end to end.

Nothing is lost: no layout is converted, and the launches run ahead of the GPU.
"""

import torch
import torchvision
from common import report, start

STEPS = 25
model = torchvision.models.resnet50(weights=None).eval().cuda().bfloat16()
model = model.to(memory_format=torch.channels_last)
images = torch.randn(128, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
images = images.to(memory_format=torch.channels_last)
with torch.inference_mode():
    for _ in range(2):
        model(images)
    started = start()
    for _ in range(STEPS):
        logits = model(images)
report("none: channels_last throughout", STEPS, started)
