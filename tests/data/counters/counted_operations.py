"""Eleven operations that know their bytes and FLOPs, for 80 ms each, one module each. ``ncu``: each once."""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

torch.backends.cuda.matmul.allow_tf32 = False
BF16, F64 = torch.bfloat16, torch.float64


def made(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


class Operation(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:  # noqa: ANN401 - what the function returns
        return self.function(*inputs)


a, b, c = (made(1 << 30) for _ in range(3))
rows, ones = made(1 << 18, 4096), torch.ones(4096, device="cuda")
image = made(128, 256, 56, 56, dtype=BF16).to(memory_format=torch.channels_last)
weight = made(256, 256, 3, 3, dtype=BF16).to(memory_format=torch.channels_last)
work: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "triad": (lambda x, y, out: torch.add(x, y, alpha=3.0, out=out), (a, b, c)),
    "elementwise": (lambda x, out: torch.mul(x, 2.5, out=out), (a, c)),
    "sum": (torch.sum, (a,)),
    "softmax": (lambda x: torch.softmax(x, -1), (rows,)),
    "layernorm": (lambda x, w: nn.functional.layer_norm(x, (4096,), w, w), (rows, ones)),
    "gemm_bf16": (torch.matmul, (made(16384, 16384, dtype=BF16), made(16384, 16384, dtype=BF16))),
    "gemm_bf16_small": (torch.matmul, (made(1024, 1024, dtype=BF16), made(1024, 1024, dtype=BF16))),
    "gemm_bf16_thin": (torch.matmul, (made(64, 32768, dtype=BF16), made(32768, 32768, dtype=BF16))),
    "gemm_fp32": (torch.matmul, (made(8192, 8192), made(8192, 8192))),
    "gemm_fp64": (torch.matmul, (made(8192, 8192, dtype=F64), made(8192, 8192, dtype=F64))),
    "conv_bf16": (lambda x, w: nn.functional.conv2d(x, w, padding=1), (image, weight)),
}
every = nn.ModuleDict({name: Operation(function) for name, (function, _) in work.items()})
with torch.inference_mode():
    for name, (_, inputs) in work.items():
        for _again in range(3):
            every[name](*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for name, (_, inputs) in work.items():
        begin = time.perf_counter()
        every[name](*inputs)
        torch.cuda.synchronize()
        again = 0.08 / (time.perf_counter() - begin)
        for _again in range(0 if "ncu" in sys.argv else max(4, min(400, int(again)))):
            every[name](*inputs)
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()
