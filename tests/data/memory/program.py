"""Six steps of eight linear layers. It prints what PyTorch and the driver say of its memory."""

import torch
from torch import nn

torch.zeros(1, device="cuda")
torch.cuda.synchronize()
free_at_first, _ = torch.cuda.mem_get_info()


def said(when: str) -> None:
    torch.cuda.synchronize()
    used = free_at_first - torch.cuda.mem_get_info()[0]
    print(
        when,
        "driver",
        used,
        "reserved",
        torch.cuda.memory_reserved(),
        "most",
        torch.cuda.max_memory_reserved(),
    )


net = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(8))).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for step in range(6):
    with torch.cuda.nvtx.range(f"step {step}"):
        with torch.cuda.nvtx.range("forward"):
            output = net(torch.randn(8192 * (1 + step % 3), 4096, device="cuda"))
        with torch.cuda.nvtx.range("backward"):
            output.square().mean().backward()
        with torch.cuda.nvtx.range("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
said("before")
del output
torch.cuda.empty_cache()
said("after")
