"""Note what PyTorch's allocator held at most on each GPU, when the program ends."""

from __future__ import annotations

import atexit
import sys

from . import notes

_NUMBERS = {
    "allocated_bytes": "allocated_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.peak",
    "retries": "num_alloc_retries",
    "failures": "num_ooms",
}


def watch() -> None:
    """Note it at the exit of this process. Processes that are killed note nothing."""
    atexit.register(notes.guarded(_note))


def _note() -> None:
    cuda = sys.modules["torch"].cuda
    if not cuda.is_initialized():
        return
    every = [(gpu, cuda.memory_stats(gpu)) for gpu in range(cuda.device_count())]
    notes.add(
        memory=[
            {"device": gpu, **{name: int(stats[key]) for name, key in _NUMBERS.items()}}
            for gpu, stats in every
            if stats.get(_NUMBERS["reserved_bytes"])
        ]
    )
