"""Train ViT of transformers with Accelerate, without mixed precision.

Avoidable: FP32 products; Accelerate leaves the precision at PyTorch's default.
"""

import torch
from accelerate import Accelerator
from common import measure
from transformers import AutoModel, ViTConfig

CAUSE = "FP32 products without TF32"
STEPS = 20
config = ViTConfig(num_hidden_layers=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
model = AutoModel.from_config(config, attn_implementation="sdpa")
accelerator = Accelerator(mixed_precision="no")
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True))
images = torch.randn(96, 3, 224, 224, device=accelerator.device)


def step() -> None:
    accelerator.backward(model(images).last_hidden_state.square().mean())
    optimizer.step()
    optimizer.zero_grad()


measure(step, STEPS, CAUSE)
