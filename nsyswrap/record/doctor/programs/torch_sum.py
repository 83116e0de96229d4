"""Add two vectors with PyTorch on the GPU and compare the sum with the CPU's."""

from __future__ import annotations

import sys

import torch

if __name__ == "__main__":
    if not torch.version.cuda:
        sys.exit("this build of PyTorch is for the CPU only")
    a = torch.arange(4096, dtype=torch.float32)
    b = torch.full_like(a, 0.5)
    if not torch.equal((a.cuda() + b.cuda()).cpu(), a + b):
        sys.exit("the sum differs from the CPU's")
