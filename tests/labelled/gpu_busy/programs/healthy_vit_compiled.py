"""Train a vision transformer of torchvision in BF16, its blocks compiled."""

import torch
import torchvision
from common import measure

STEPS = 20
model = torchvision.models.VisionTransformer(
    image_size=224, patch_size=16, num_layers=4, num_heads=16, hidden_dim=1024, mlp_dim=4096
)
model = model.cuda().bfloat16()
for block in model.encoder.layers:
    block.compile()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
images = torch.randn(192, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
labels = torch.randint(0, 1000, (192,), device="cuda")


def step() -> None:
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, "")
