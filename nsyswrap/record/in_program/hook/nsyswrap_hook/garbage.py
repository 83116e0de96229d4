"""Mark each long garbage collection of Python when it ends, with its duration in ns.

A mark is made after the collection, so that the many short ones cost no call of the tool.
"""

from __future__ import annotations

import gc
import time
from typing import Any

from . import notes, nvtx

DOMAIN = "nsyswrap.gc"
_LEAST_NS = 100_000
_GENERATIONS = 3


def watch() -> None:
    """Mark collections from here on, if a tool records them."""
    domain = nvtx.domain(DOMAIN)  # here, not inside a collection
    if domain.recorded:
        marks = [domain.marking(f"generation {number}") for number in range(_GENERATIONS)]
        gc.callbacks.append(notes.guarded(_Collections(marks)))


class _Collections:
    """Python calls this before and after each collection, while no other one runs."""

    def __init__(self, marks: list[nvtx.Numbered | None]) -> None:
        self._marks = marks
        self._began_ns = 0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began_ns = time.monotonic_ns()
            return
        took_ns = time.monotonic_ns() - self._began_ns
        mark = self._marks[min(info["generation"], _GENERATIONS - 1)]
        if mark and took_ns >= _LEAST_NS:
            event, write = mark
            event.payload = took_ns
            write()
