"""Train a ViT with ranges in two domains.

What repeats: 20 batches, `batch_0000` to `batch_0019` in `trainer`.

Each batch also has a range in the domain `input`, whose name has no number.
"""

import nvtx
import torch
from transformers import ViTConfig, ViTForImageClassification
from truth import tell, timed

BATCHES = 20
BATCH = 64

config = ViTConfig(hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048)
config.num_labels = 10
model = ViTForImageClassification(config).cuda().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
pixels = torch.rand(BATCH, 3, 224, 224, pin_memory=torch.cuda.is_available())
classes = torch.randint(0, 10, (BATCH,), device="cuda")


def load() -> torch.Tensor:
    with nvtx.annotate("load", domain="input"):
        return pixels.to("cuda", non_blocking=True).flip(-1)


with timed("batches", BATCHES):
    for number in range(BATCHES):
        with nvtx.annotate(f"batch_{number:04d}", domain="trainer", color="green"):
            batch = load()
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(pixel_values=batch, labels=classes).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
print(loss.item())
tell("batches")
