"""Run ResNet-50 of torchvision in BF16 and channels_last; batch norms are folded into convolutions."""

import torch
import torchvision
from common import measure
from torch.nn.utils.fusion import fuse_conv_bn_eval

STEPS = 25
model = torchvision.models.resnet50(weights=None).eval().cuda()
for module in list(model.modules()):
    for number in (1, 2, 3):
        if hasattr(module, f"bn{number}"):
            folded = fuse_conv_bn_eval(getattr(module, f"conv{number}"), getattr(module, f"bn{number}"))
            setattr(module, f"conv{number}", folded)
            setattr(module, f"bn{number}", torch.nn.Identity())
    if getattr(module, "downsample", None) is not None:
        module.downsample = fuse_conv_bn_eval(*module.downsample)
model = model.bfloat16().to(memory_format=torch.channels_last)
images = torch.randn(512, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
images = images.to(memory_format=torch.channels_last)
with torch.inference_mode():
    measure(lambda: model(images), STEPS, "")
