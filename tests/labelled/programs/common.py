"""What the labelled programs share: an imitated start-up, calibrated GPU work, host work, a network."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch


def start_up(seconds: float) -> None:
    """Prepare data on the CPU and launch first kernels of many kinds, which loads modules, for `seconds`."""
    until = time.perf_counter() + seconds
    x = torch.rand(256, 256, device="cuda")
    first_launches: list[Callable[[], Any]] = [
        lambda: x @ x,
        lambda: x.half() @ x.half(),
        lambda: x.softmax(0),
        lambda: torch.nn.functional.layer_norm(x, (256,)),
        x.sort,
        lambda: x.cumsum(0),
        lambda: x.topk(8),
        lambda: x.var().item(),
    ]
    for launch in first_launches:
        launch()
        host_work(0.08 * seconds)
    while time.perf_counter() < until:
        host_work(0.02)
    torch.cuda.synchronize()


def host_work(seconds: float) -> list[int]:
    """Keep this thread busy with lists of Python numbers for `seconds`."""
    until = time.perf_counter() + seconds
    rows: list[int] = []
    while time.perf_counter() < until:
        rows.append(sum(number * number for number in range(50)))
        if len(rows) > 1000:
            rows = sorted(rows)[:10]
    return rows


def gpu_seconds(work: Callable[[], Any], times: int = 10) -> float:
    """Return the time that the GPU takes for one call of `work`, after one call to warm up."""
    work()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(times):
        work()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop)) * 1e-3 / times


def host_seconds(work: Callable[[], Any], times: int = 3) -> float:
    """Return the time from the call of `work` until the GPU is done with it, after one call to warm up."""
    work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        work()
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / times


def gpu_work(seconds: float, side: int = 4096) -> Callable[[], None]:
    """Return a function that launches matrix products that keep the GPU busy for about `seconds`."""
    a = torch.rand(side, side, device="cuda", dtype=torch.float16)
    out = torch.empty_like(a)
    count = max(1, round(seconds / gpu_seconds(lambda: torch.mm(a, a, out=out))))

    def run() -> None:
        for _ in range(count):
            torch.mm(a, a, out=out)

    return run


def make_network(width: int, layers: int) -> Any:  # noqa: ANN401 - torch has no types here
    """Return a network of linear layers and ReLUs on the GPU, with TF32 products."""
    torch.set_float32_matmul_precision("high")
    pairs = [(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(layers)]
    return torch.nn.Sequential(*(module for pair in pairs for module in pair)).cuda()
