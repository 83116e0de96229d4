"""Fit random features in FP64, the default type of numpy; cured: in FP32, with TF32 products."""

import numpy as np
import torch
from common import CURED, measure

if CURED:
    torch.set_float32_matmul_precision("high")
number_type = np.float32 if CURED else np.float64
random = np.random.default_rng(0)
frequencies = torch.from_numpy(random.normal(size=(256, 8192)).astype(number_type)).cuda()
points = torch.from_numpy(random.random((16384, 256)).astype(number_type)).cuda()
targets = torch.from_numpy(random.random((16384, 256)).astype(number_type)).cuda()
weights = torch.zeros(8192, 256, dtype=points.dtype, device="cuda")


def step() -> None:
    features = torch.cos(points @ frequencies)
    error = features @ weights - targets
    weights.sub_(features.T @ error, alpha=1e-7)


measure(step, 20)
