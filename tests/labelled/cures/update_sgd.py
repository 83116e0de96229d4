"""Train a vision transformer of torchvision with SGD(foreach=False); cured: with SGD(fused=True)."""

import torch
from common import CURED, measure
from torchvision.models import VisionTransformer

with torch.device("cuda"):
    model = VisionTransformer(224, 16, num_layers=6, num_heads=16, hidden_dim=2048, mlp_dim=8192)
way = {"fused": True} if CURED else {"foreach": False}
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4, **way)
images = torch.randn(16, 3, 224, 224, device="cuda")


def step() -> None:
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(images).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step, 10)
