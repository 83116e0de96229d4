"""Train in one thread and answer requests in another.

What repeats: 30 training steps, and 60 requests beside them.
"""

import threading

import torch
import torchvision
from truth import begin, end, synchronize, tell

STEPS = 30
REQUESTS = 60
BATCH = 96

trained = torchvision.models.resnet34(weights=None).cuda().train()
served = torchvision.models.resnet18(weights=None).cuda().eval()
optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
images = torch.rand(BATCH, 3, 224, 224, device="cuda")
classes = torch.randint(0, 1000, (BATCH,), device="cuda")


def serve() -> None:
    stream = torch.cuda.Stream()
    begin("requests", wait=False)
    with torch.no_grad(), torch.cuda.stream(stream):
        for number in range(REQUESTS):
            torch.cuda.nvtx.range_push(f"request {number}")
            answer = served(images[:8]).argmax(1).cpu()
            torch.cuda.nvtx.range_pop()
    end("requests", REQUESTS, wait=False)  # the copy to the host has waited
    print("served", answer.shape[0])


server = threading.Thread(target=serve, name="server")
synchronize()
begin("training steps")
server.start()
for _ in range(STEPS):
    with torch.cuda.nvtx.range("training step"):
        loss = torch.nn.functional.cross_entropy(trained(images), classes)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
end("training steps", STEPS)
server.join()
tell("training steps")
