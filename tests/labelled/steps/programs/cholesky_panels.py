"""Factorize a matrix in panels.

What repeats: 40 panels, `panel 0` to `panel 39`, each with less work than the last.
"""

import torch
from truth import tell, timed

PANELS = 40
BLOCK = 768

torch.backends.cuda.matmul.allow_tf32 = False
size = PANELS * BLOCK
a = torch.rand(size, size, device="cuda")
a = (a + a.T) / 2
a.diagonal().add_(size)

with timed("panels", PANELS):
    for panel in range(PANELS):
        with torch.cuda.nvtx.range(f"panel {panel}"):
            first, last = panel * BLOCK, (panel + 1) * BLOCK
            factor, _ = torch.linalg.cholesky_ex(a[first:last, first:last])
            a[first:last, first:last] = factor
            if last == size:
                break
            below = torch.linalg.solve_triangular(factor, a[last:, first:last].T, upper=False).T
            a[last:, first:last] = below
            a[last:, last:].addmm_(below, below.T, alpha=-1)
print(a.diagonal().log().sum().item())
tell("panels")
