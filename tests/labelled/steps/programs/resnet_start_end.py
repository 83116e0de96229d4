"""Train ResNet-50 on random images.

What repeats: 18 iterations, each between the start and the end of a range.
"""

import nvtx
import torch
import torchvision
from truth import tell, timed

ITERATIONS = 18
BATCH = 64

model = torchvision.models.resnet50(weights=None).cuda().train()
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
images = torch.rand(2 * BATCH, 3, 224, 224)
classes = torch.randint(0, 1000, (2 * BATCH,))

with timed("iterations", ITERATIONS):
    for iteration in range(ITERATIONS):
        handle = nvtx.start_range(f"iteration {iteration}")
        half = slice(BATCH * (iteration % 2), BATCH * (iteration % 2 + 1))
        batch, target = images[half].cuda(), classes[half].cuda()
        optimizer.zero_grad()
        loss = criterion(model(batch), target)
        loss.backward()
        optimizer.step()
        running = loss.item()
        nvtx.end_range(handle)
print(f"last loss {running:.3f}")
tell("iterations")
