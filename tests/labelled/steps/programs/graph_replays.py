"""Replay a CUDA graph of a ResNet-18. What repeats: 11 eager passes to warm up, then 150 replays."""

import torch
import torchvision
from truth import tell, timed

WARM_UP = 11
REPLAYS = 150
BATCH = 64

model = torchvision.models.resnet18(weights=None).cuda().half().eval()
static = torch.rand(BATCH, 3, 224, 224, device="cuda", dtype=torch.float16)
frames = torch.rand(4, *static.shape, device="cuda", dtype=torch.float16)

with torch.no_grad():
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), timed("eager passes", WARM_UP):
        for _ in range(WARM_UP):
            model(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores = model(static)
    votes = torch.zeros(1000, device="cuda")
    with timed("replays", REPLAYS):
        for number in range(REPLAYS):
            static.copy_(frames[number % 4])
            graph.replay()
            votes += scores.float().sum(0)
print(votes.argmax().item())
tell("replays")
