"""What the pairs share: which side runs, and the time of its steps."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

CURED = sys.argv[1:] == ["after"]
if not CURED and sys.argv[1:] != ["before"]:
    sys.exit("usage: NAME.py before|after")


@contextmanager
def timed(steps: int) -> Iterator[None]:
    """Print the time of each of these steps, with a wait for the GPU before the first and after the last."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    yield
    torch.cuda.synchronize()
    print("SECONDS_PER_STEP", (time.perf_counter() - started) / steps)


def measure(step: Callable[[], Any], steps: int) -> Any:  # noqa: ANN401 - whatever a step returns
    """Run `step` three times to warm up, then time it `steps` times; return the last result."""
    for _ in range(3):
        step()
    with timed(steps):
        for _ in range(steps):
            result = step()
    return result
