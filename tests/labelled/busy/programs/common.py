"""What these programs share: the clock around their steps, and the line that tells what they know."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import torch


def start() -> float:
    """Return the time after all GPU work so far."""
    torch.cuda.synchronize()
    return time.perf_counter()


def report(cause: str, steps: int, started: float, **facts: float) -> None:
    """Wait for all GPU work since `started`, and print the truth about `steps` steps."""
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - started) / steps
    print("TRUTH", json.dumps({"cause": cause, "steps": steps, "seconds_per_step": seconds, **facts}))


def measure(step: Callable[[], Any], steps: int, cause: str, warm_up: int = 1) -> Any:  # noqa: ANN401
    """Run `step` to warm up, then `steps` times between two waits, and report; return its last result."""
    for _ in range(warm_up):
        step()
    started = start()
    for _ in range(steps):
        result = step()
    report(cause, steps, started)
    return result
