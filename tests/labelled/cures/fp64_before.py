"""Fit random features in FP64, the default type of numpy."""

import time

import numpy as np
import torch

STEPS = 20
random = np.random.default_rng(0)
frequencies = torch.from_numpy(random.normal(size=(256, 8192))).cuda()
points = torch.from_numpy(random.random((16384, 256))).cuda()
targets = torch.from_numpy(random.random((16384, 256))).cuda()
weights = torch.zeros(8192, 256, dtype=points.dtype, device="cuda")


def step() -> None:
    features = torch.cos(points @ frequencies)
    error = features @ weights - targets
    weights.sub_(features.T @ error, alpha=1e-7)


for _ in range(3):
    step()
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(STEPS):
    step()
torch.cuda.synchronize()
print("SECONDS_PER_STEP", (time.perf_counter() - started) / STEPS)
