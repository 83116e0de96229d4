"""Programs whose memory grows (leak), or runs out (retries). They print what PyTorch and the driver say."""

import sys

import torch
from torch import nn

torch.zeros(1, device="cuda")
torch.cuda.synchronize()
free_at_first, _ = torch.cuda.mem_get_info()


class Remember(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[torch.Tensor] = []

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        with torch.cuda.nvtx.range("remember"):
            self.kept.append(torch.empty(48 << 20, dtype=torch.uint8, device="cuda").fill_(1))
        return values


def layers(count: int) -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(count))).cuda()


is_leak = sys.argv[1] == "leak"
net = nn.Sequential(layers(4), Remember(), layers(2)) if is_leak else layers(4)
if not is_leak:
    rest = int(torch.cuda.mem_get_info()[0] - (6 << 30)) >> 20 << 20
    hold = torch.empty(rest, dtype=torch.uint8, device="cuda")
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
for step in range(24 if is_leak else 20):
    with torch.cuda.nvtx.range(f"step {step}"):
        with torch.cuda.nvtx.range("forward"):
            output = net(torch.randn(2048, 2048, device="cuda"))
        with torch.cuda.nvtx.range("backward"):
            output.square().mean().backward()
        with torch.cuda.nvtx.range("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        if not is_leak:  # each larger than all that are cached
            torch.empty((3 + step % 10) << 28, dtype=torch.uint8, device="cuda")[:1024] = 1
        torch.cuda.synchronize()
used = free_at_first - torch.cuda.mem_get_info()[0]
retries = torch.cuda.memory_stats()["num_alloc_retries"]
print("driver", used, "most", torch.cuda.max_memory_reserved(), "retries", retries)
