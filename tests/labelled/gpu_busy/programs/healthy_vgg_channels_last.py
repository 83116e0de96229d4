"""Train VGG-16 of torchvision in BF16 and channels_last: convolutions take most of the time."""

import torch
import torchvision
from common import measure

STEPS = 20
model = torchvision.models.vgg16(weights=None).cuda().bfloat16().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
images = torch.randn(128, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
images = images.to(memory_format=torch.channels_last)
labels = torch.randint(0, 1000, (128,), device="cuda")


def step() -> None:
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, "")
