"""What the held-out Python programs share: an imitated start-up and host work, without a GPU library."""

from __future__ import annotations

import time

import numpy as np


def start_up(seconds: float) -> None:
    """Sort random numbers for `seconds`, as programs that read and prepare their input do."""
    until = time.perf_counter() + seconds
    generator = np.random.default_rng(7)
    while time.perf_counter() < until:
        np.sort(generator.random(100_000))


def decode(seconds: float) -> int:
    """Keep this thread busy with text for `seconds`, and return how many words it has decoded."""
    until = time.perf_counter() + seconds
    words = 0
    while time.perf_counter() < until:
        words += len(" ".join(str(number) for number in range(60)).split())
    return words
