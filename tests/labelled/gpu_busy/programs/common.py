"""What these programs share: a timed loop without waits, and the line that tells what they know."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any


def wait_for_gpu() -> None:
    """Wait for all GPU work of PyTorch."""
    sys.modules["torch"].cuda.synchronize()


def start(wait: Callable[[], Any] = wait_for_gpu) -> float:
    """Return the time after all GPU work so far."""
    wait()
    return time.perf_counter()


def report(cause: str, steps: int, started: float, wait: Callable[[], Any] = wait_for_gpu) -> None:
    """Wait for all GPU work since `started`, and print the truth about `steps` steps."""
    wait()
    seconds = (time.perf_counter() - started) / steps
    print("TRUTH", json.dumps({"cause": cause, "steps": steps, "seconds_per_step": seconds}))


def measure(step: Callable[[], Any], steps: int, cause: str, warm_up: int = 3) -> None:
    """Run `step` some times to warm up, then `steps` times between two waits, and report."""
    for _ in range(warm_up):
        step()
    started = start()
    for _ in range(steps):
        step()
    report(cause, steps, started)
