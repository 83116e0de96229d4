"""Score items: one kernel a table gathers and sums rows of large embeddings for a BF16 MLP."""

import torch
from common import measure

STEPS, ROWS, WIDTH, BATCH = 30, 4_000_000, 256, 65_536
with torch.device("cuda"):
    tables = [torch.nn.EmbeddingBag(ROWS, WIDTH, mode="sum", dtype=torch.bfloat16) for _ in range(6)]
    items = [torch.randint(0, ROWS, (BATCH, 40)) for _ in tables]
    mlp = torch.nn.Sequential(
        torch.nn.Linear(6 * WIDTH, 4096), torch.nn.ReLU(inplace=True), torch.nn.Linear(4096, 8)
    )
mlp = mlp.bfloat16()


def step() -> None:
    sums = [table(item) for table, item in zip(tables, items, strict=True)]
    mlp(torch.cat(sums, dim=1))


with torch.inference_mode():
    measure(step, STEPS, "")
