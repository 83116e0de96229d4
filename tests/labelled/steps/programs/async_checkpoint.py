"""Train a ViT and copy its weights to the host on another stream.

What repeats: 18 steps, a checkpoint in every 6th.
"""

import torch
import torchvision
from truth import tell, timed

STEPS = 18
EVERY = 6
BATCH = 64

torch.set_float32_matmul_precision("high")
model = torchvision.models.vit_b_16(weights=None).cuda().train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images = torch.rand(BATCH, 3, 224, 224, device="cuda")
classes = torch.randint(0, 1000, (BATCH,), device="cuda")
saver = torch.cuda.Stream()
on_host = [torch.empty(p.shape, pin_memory=torch.cuda.is_available()) for p in model.parameters()]

with timed("training steps", STEPS):
    for step in range(STEPS):
        with torch.cuda.nvtx.range("forward_backward"):
            loss = torch.nn.functional.cross_entropy(model(images), classes)
            optimizer.zero_grad()
            loss.backward()
        torch.cuda.current_stream().wait_stream(saver)  # the weights may change once they are copied
        optimizer.step()
        if step % EVERY == EVERY - 1:
            saver.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(saver), torch.cuda.nvtx.range("checkpoint"):
                for kept, parameter in zip(on_host, model.parameters(), strict=True):
                    kept.copy_(parameter.detach(), non_blocking=True)
print(loss.item(), on_host[0].abs().mean().item())
tell("training steps")
