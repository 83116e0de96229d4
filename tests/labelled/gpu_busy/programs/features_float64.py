"""Fit random Fourier features; the frequencies come from numpy.

Avoidable: numpy's default type makes all products, cosines and updates FP64; the fit needs three digits.
"""

import numpy as np
import torch
from common import measure

CAUSE = "FP64 by accident, from numpy's default type"
STEPS = 20
random = np.random.default_rng(0)
frequencies = torch.from_numpy(random.normal(size=(512, 8192))).cuda()
points = torch.from_numpy(random.random((32_768, 512))).cuda()
targets = torch.from_numpy(random.random((32_768, 256))).cuda()
weights = torch.zeros(8192, 256, dtype=points.dtype, device="cuda")


def step() -> None:
    features = torch.cos(points @ frequencies)
    error = features @ weights - targets
    weights.sub_(features.T @ error, alpha=1e-7)


measure(step, STEPS, CAUSE)
