"""Train a network whose halves lie on two GPUs.

What repeats: 20 steps, `global_step=0` and so on, of 4 micro-batches.

With one GPU it does nothing, and its truth is null.
"""

import sys

import torch
import torchvision
from torch import nn
from truth import tell, timed

STEPS = 20
MICRO = 4
BATCH = 32

if torch.cuda.device_count() < 2:
    print("TRUTH null")
    sys.exit(0)

whole = torchvision.models.resnet50(weights=None)
layers = list(whole.children())
front = nn.Sequential(*layers[:6]).to("cuda:0")
back = nn.Sequential(*layers[6:-1], nn.Flatten(), layers[-1]).to("cuda:1")
optimizers = [torch.optim.SGD(stage.parameters(), lr=0.01) for stage in (front, back)]
images = torch.rand(MICRO, BATCH, 3, 224, 224, device="cuda:0")
classes = torch.randint(0, 1000, (MICRO, BATCH), device="cuda:1")

with timed("steps", STEPS):
    for step in range(STEPS):
        torch.cuda.nvtx.range_push(f"global_step={step}")
        losses = []
        for micro in range(MICRO):
            hidden = front(images[micro]).to("cuda:1", non_blocking=True)
            losses.append(nn.functional.cross_entropy(back(hidden), classes[micro]))
        for loss in losses:
            (loss / MICRO).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.nvtx.range_pop()
print(losses[-1].item())
tell("steps")
