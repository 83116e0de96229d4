"""Train ResNet-50 while the next batch is copied on another stream.

What repeats: 20 steps, without any range.
"""

from collections.abc import Iterator

import torch
import torchvision
from truth import tell, timed

STEPS = 20
BATCH = 96

model = torchvision.models.resnet50(weights=None).cuda().to(memory_format=torch.channels_last).train()
criterion = torch.nn.CrossEntropyLoss().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
pool = torch.randint(0, 256, (3, BATCH, 3, 224, 224), dtype=torch.uint8, pin_memory=torch.cuda.is_available())
classes = torch.randint(0, 1000, (BATCH,), pin_memory=torch.cuda.is_available())


def prefetched() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    stream = torch.cuda.Stream()
    following = None
    for step in range(STEPS + 1):
        batch = following
        torch.cuda.current_stream().wait_stream(stream)
        if step < STEPS:
            with torch.cuda.stream(stream):
                images = pool[step % 3].to("cuda", non_blocking=True).float().div_(255).sub_(0.5)
                following = images, classes.to("cuda", non_blocking=True)
        if batch is not None:
            for tensor in batch:
                tensor.record_stream(torch.cuda.current_stream())
            yield batch


with timed("training steps", STEPS):
    for images, target in prefetched():
        with torch.autocast("cuda", torch.bfloat16):
            loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(loss.item())
tell("training steps")
