"""Fit random features in FP32, with TF32 products."""

import time

import numpy as np
import torch

STEPS = 20
torch.set_float32_matmul_precision("high")
random = np.random.default_rng(0)
frequencies = torch.from_numpy(random.normal(size=(256, 8192)).astype(np.float32)).cuda()
points = torch.from_numpy(random.random((16384, 256)).astype(np.float32)).cuda()
targets = torch.from_numpy(random.random((16384, 256)).astype(np.float32)).cuda()
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
