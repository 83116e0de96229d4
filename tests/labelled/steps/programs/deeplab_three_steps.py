"""Train DeepLabv3 on large images. What repeats: 3 long steps."""

import torch
from torchvision.models.segmentation import deeplabv3_resnet50
from truth import tell, timed

BATCH = 32
SIDE = 512

torch.set_float32_matmul_precision("high")
model = deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21).cuda().train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images = torch.rand(BATCH, 3, SIDE, SIDE, device="cuda")
masks = torch.randint(0, 21, (BATCH, SIDE, SIDE), device="cuda")

with timed("optimizer steps", 3):
    for _ in range(3):
        with torch.cuda.nvtx.range("optimizer step"):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images)["out"], masks)
            loss.backward()
            optimizer.step()
            print(loss.item())
tell("optimizer steps")
