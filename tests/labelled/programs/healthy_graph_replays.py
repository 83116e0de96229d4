"""Replay a CUDA graph of large matrix products, without any NVTX range.

Healthy: a replay takes milliseconds and its launch microseconds.
"""

import torch

a = torch.rand(4096, 4096, device="cuda", dtype=torch.float16)
b, c = torch.empty_like(a), torch.empty_like(a)


def chain() -> None:
    for _ in range(6):
        torch.mm(a, a, out=b)
        torch.relu(b)
        torch.mm(b, a, out=c)


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    chain()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    chain()
for _ in range(60):
    graph.replay()
torch.cuda.synchronize()
print(c[0, 0].item())
