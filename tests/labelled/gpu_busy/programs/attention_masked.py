"""Train causal attention from a textbook: scores, mask, softmax, dropout, values.

Avoidable: the matrix of scores is written and read by each of these kernels.
"""

import torch
from common import measure

CAUSE = "attention written out, with a mask and dropout"
STEPS, HEADS, WIDTH, LENGTH = 20, 16, 1024, 2048
project = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False, device="cuda", dtype=torch.bfloat16)
merge = torch.nn.Linear(WIDTH, WIDTH, bias=False, device="cuda", dtype=torch.bfloat16)
later = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device="cuda").triu(1)
x = torch.randn(8, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16)


def attend(x: torch.Tensor) -> torch.Tensor:
    shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
    query, key, value = (part.view(shape).transpose(1, 2) for part in project(x).chunk(3, dim=-1))
    scores = query @ key.transpose(-1, -2) / shape[-1] ** 0.5
    weights = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
    weights = torch.nn.functional.dropout(weights, 0.1)
    return merge((weights @ value).transpose(1, 2).reshape(x.shape))


def step() -> None:
    attend(x).mean(dtype=torch.float32).backward()
    project.zero_grad()
    merge.zero_grad()


measure(step, STEPS, CAUSE)
