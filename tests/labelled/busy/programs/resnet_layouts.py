"""Run ResNet-50 of torchvision in channels_last, with a hook that makes each output contiguous again.

Most time beside the convolutions: conversions between NHWC and NCHW around each of them.
"""

import torch
import torchvision
from common import report, start

STEPS = 20
model = torchvision.models.resnet50(weights=None).eval().cuda().bfloat16()
model = model.to(memory_format=torch.channels_last)


def make_contiguous(_module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> torch.Tensor:
    return output.contiguous()  # as an older probe of activations needs it


for module in model.modules():
    if isinstance(module, torch.nn.Conv2d):
        module.register_forward_hook(make_contiguous)
images = torch.randn(128, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
with torch.inference_mode():
    for _ in range(2):
        model(images)
    started = start()
    for _ in range(STEPS):
        logits = model(images)
report("layout conversions between NHWC and NCHW", STEPS, started)
