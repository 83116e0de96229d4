"""Time the loops of a program and print the truth about them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOOPS: dict[str, dict[str, Any]] = {}
STARTS: dict[str, float] = {}


def synchronize() -> None:
    """Wait for every GPU that this process uses through PyTorch, if it uses PyTorch."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        for device in range(torch.cuda.device_count()):
            if torch.cuda.memory_reserved(device):  # else this would create a context there
                torch.cuda.synchronize(device)


def begin(label: str, *, wait: bool = True) -> None:
    """Note the start of a loop; without `wait` for one that starts inside another."""
    if wait:
        synchronize()
    STARTS.setdefault(label, time.perf_counter())


def end(label: str, count: int, *, wait: bool = True) -> None:
    """Note the end of a loop of `count` occurrences; a later end replaces it."""
    if wait:
        synchronize()
    seconds = time.perf_counter() - STARTS[label]
    LOOPS[label] = {"label": label, "count": count, "seconds": round(seconds, 6)}


@contextmanager
def timed(label: str, count: int) -> Iterator[None]:
    """Time a loop from its first occurrence to its last."""
    begin(label)
    yield
    end(label, count)


def tell(judged: str | None) -> None:
    """Print the loops and the one that a human would judge first."""
    print("TRUTH", json.dumps({"loops": list(LOOPS.values()), "judged": judged}), flush=True)
