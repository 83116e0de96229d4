"""Train a detector on images of several sizes. What repeats: 5 steps, without any range."""

import random

import torch
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_fpn
from truth import tell, timed

STEPS = 5
BATCH = 4

chance = random.Random(3)  # noqa: S311 - no secret
model = fasterrcnn_mobilenet_v3_large_fpn(weights=None, weights_backbone=None, num_classes=5).cuda().train()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)


def sample() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    side = 64 * chance.randint(8, 12)
    corners = torch.rand(6, 2) * side / 2
    boxes = torch.cat([corners, corners + 16 + torch.rand(6, 2) * (side / 2 - 20)], 1)
    target = {"boxes": boxes.cuda(), "labels": torch.randint(1, 5, (6,)).cuda()}
    return torch.rand(3, side, side).cuda(), target


with timed("steps", STEPS):
    for step in range(STEPS):
        images, targets = zip(*[sample() for _ in range(BATCH)], strict=True)
        losses = model(list(images), list(targets))
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
tell("steps")
