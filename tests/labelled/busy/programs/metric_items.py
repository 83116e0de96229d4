"""Train a classifier and compute precision and recall per class with .item().

Lost time: 80 calls of .item() a step, each of which waits for the GPU.
"""

import torch
from common import report, start

STEPS, CLASSES = 25, 40
model = torch.nn.Sequential(
    torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, CLASSES)
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(8192, 512, device="cuda")
y = torch.randint(0, CLASSES, (8192,), device="cuda")


def scores(predicted: torch.Tensor) -> float:
    total = 0.0
    for number in range(CLASSES):
        of_class = predicted == number
        hits = (of_class & (y == number)).sum().item()
        total += hits / max(of_class.sum().item(), 1)
    return total / CLASSES


def train_step() -> float:
    output = model(x)
    loss = torch.nn.functional.cross_entropy(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return scores(output.argmax(1))


train_step()
started = start()
for _ in range(STEPS):
    value = train_step()
print(value)
report("many .item() in a metric", STEPS, started)
