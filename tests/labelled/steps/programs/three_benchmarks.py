"""Measure three operations with torch.utils.benchmark.

What repeats: 100 products, 100 convolutions, 100 sorts.

The sorts take most of the time. Each loop has two calls to warm up.
"""

import torch
from torch.utils.benchmark import Timer
from truth import tell, timed

NUMBER = 100
BATCH = 32

a = torch.rand(4096, 4096, device="cuda", dtype=torch.float16)
images = torch.rand(BATCH, 128, 96, 96, device="cuda", dtype=torch.float16)
filters = torch.rand(128, 128, 3, 3, device="cuda", dtype=torch.float16)
keys = torch.rand(BATCH << 20, device="cuda")

BENCHMARKS = [
    ("products", "a @ a", {"a": a}),
    ("convolutions", "conv2d(x, w, padding=1)", {"x": images, "w": filters, "conv2d": torch.conv2d}),
    ("sorts", "keys.sort()", {"keys": keys}),
]
for label, statement, names in BENCHMARKS:
    timer = Timer(statement, globals=names, label=label)
    with timed(label, NUMBER):
        print(timer.timeit(NUMBER))
tell("sorts")
