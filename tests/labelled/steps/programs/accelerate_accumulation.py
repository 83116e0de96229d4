"""Train with Accelerate, an optimizer step for every 4 batches.

What repeats: 12 such steps of 4 micro-batches.
"""

import torch
import torchvision
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from truth import begin, end, tell

STEPS = 12
MICRO = 4
BATCH = 64

accelerator = Accelerator(gradient_accumulation_steps=MICRO)
images = torch.rand(STEPS * MICRO * BATCH // 4, 3, 128, 128).repeat(4, 1, 1, 1)
dataset = TensorDataset(images, torch.randint(0, 100, (len(images),)))
model = torchvision.models.resnet34(weights=None, num_classes=100)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(dataset, batch_size=BATCH))

model.train()
begin("optimizer steps")
begin("micro-batches", wait=False)
for inputs, classes in loader:
    with accelerator.accumulate(model):
        loss = torch.nn.functional.cross_entropy(model(inputs), classes)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
end("micro-batches", STEPS * MICRO)
end("optimizer steps", STEPS)
print(loss.item())
tell("optimizer steps")
