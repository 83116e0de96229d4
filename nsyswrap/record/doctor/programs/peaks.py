"""Measure the highest rates of a GPU: products of matrices by type, and a copy inside its memory.

It prints JSON: the name of the GPU, operations per second by type, bytes read and written per second. Each
rate is that of the fastest of several calls. PyTorch makes them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

_WARM_UPS, _LEAST_CALLS, _SECONDS = 3, 5, 0.5
_COPIED_BYTES = 1 << 30
_DEVICE = "cuda"
# Type -> PyTorch's, rows and columns of the matrices, first compute capability that is fast.
PRODUCTS = {
    "f16": ("float16", 8192, (7, 0)),
    "bf16": ("bfloat16", 8192, (8, 0)),
    "tf32": ("float32", 8192, (8, 0)),
    "f32": ("float32", 4096, (0, 0)),
    "f64": ("float64", 4096, (0, 0)),
}


def _fastest_s(call: Callable[[], object]) -> float:
    cuda: Any = torch.cuda  # without types
    for _ in range(_WARM_UPS):
        call()
    cuda.synchronize()
    fastest, calls, end = float("inf"), 0, time.monotonic() + _SECONDS
    while calls < _LEAST_CALLS or time.monotonic() < end:
        before, after = (cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        call()
        after.record()
        cuda.synchronize()
        fastest, calls = min(fastest, before.elapsed_time(after) / 1e3), calls + 1
    return fastest


def _product_flop_per_s(kind: str) -> float:
    dtype, size, _ = PRODUCTS[kind]
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    a, b = (torch.randn(size, size, device=_DEVICE).to(getattr(torch, dtype)) for _ in range(2))
    return 2 * size**3 / _fastest_s(partial(torch.mm, a, b, out=torch.empty_like(a)))


def _copy_bytes_per_s() -> float:
    size = min(_COPIED_BYTES, torch.cuda.mem_get_info()[0] // 8)
    source = torch.empty(size, dtype=torch.uint8, device=_DEVICE)
    copied: int = source.nbytes
    return 2 * copied / _fastest_s(partial(torch.empty_like(source).copy_, source))


def measure() -> tuple[str, dict[str, float], float]:
    """Return the name of the GPU, its operations per second by type, and its bytes per second."""
    here = torch.cuda.get_device_capability()
    rates = {kind: _product_flop_per_s(kind) for kind, (*_, since) in PRODUCTS.items() if here >= since}
    return torch.cuda.get_device_name(), rates, _copy_bytes_per_s()


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU")
    print(json.dumps(measure()))
