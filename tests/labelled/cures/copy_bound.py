"""Search vectors that are streamed from pinned memory for each batch; cured: that stay on the GPU."""

import torch
from common import CURED, measure

BLOCKS, ROWS, WIDTH = 8, 65_536, 1024
vectors = [torch.ones(ROWS, WIDTH, dtype=torch.bfloat16, pin_memory=True) for _ in range(BLOCKS)]
on_gpu = [block.cuda() for block in vectors]
queries = torch.randn(WIDTH, 2048, device="cuda", dtype=torch.bfloat16)
copied, used = ([torch.cuda.Event() for _ in range(BLOCKS)] for _ in range(2))
copying, computing = torch.cuda.Stream(), torch.cuda.current_stream()


def step() -> None:
    for number in range(BLOCKS):
        if not CURED:
            with torch.cuda.stream(copying):
                copying.wait_event(used[number])
                on_gpu[number].copy_(vectors[number], non_blocking=True)
                copied[number].record(copying)
            computing.wait_event(copied[number])
        (on_gpu[number] @ queries).amax(dim=0)
        used[number].record(computing)


measure(step, 20)
