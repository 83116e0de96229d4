"""Transfer the style of an image with VGG-16. What repeats: 25 optimizer steps, which only PyTorch marks.

Under `emit_nvtx` PyTorch gives each operation a range, and `Optimizer.step#Adam.step` to each optimizer step.
"""

import torch
import torchvision
from truth import tell, timed

STEPS = 25
SIDE = 768

torch.backends.cudnn.benchmark = True
network = torchvision.models.vgg16(weights=None).features[:23].cuda().eval().requires_grad_(False)  # noqa: FBT003
content, style = torch.rand(2, 1, 3, SIDE, SIDE, device="cuda")
picture = content.clone().requires_grad_()
optimizer = torch.optim.Adam([picture], lr=0.02)


def gram(features: torch.Tensor) -> torch.Tensor:
    flat = features.flatten(2)[0]
    return flat @ flat.T / flat.numel()


with torch.no_grad():
    wanted_content, wanted_style = network(content), gram(network(style))
with timed("optimizer steps", STEPS), torch.autograd.profiler.emit_nvtx():
    for _ in range(STEPS):
        optimizer.zero_grad()
        features = network(picture)
        loss = (features - wanted_content).square().mean() + 1e4 * (
            gram(features) - wanted_style
        ).square().sum()
        loss.backward()
        optimizer.step()
print(loss.item())
tell("optimizer steps")
