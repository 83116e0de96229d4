"""Find the NVTX range, or module, around the call that made each allocation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.range_tree.tree import call_paths
from nsyswrap.analysis.usage import MEMORY_USE, Allocations
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.capture import Capture

NO_RANGE = "(no range)"
FOR_RANGES = {"nvtx": "NVTX ranges", "api": "CUDA calls"}


def allocation_ranges(whole: Capture, held: Allocations) -> tuple[NDArray[Any], list[str]]:
    """Return the number of the range around each allocation, and the paths of the ranges."""
    if not all(map(whole.has, FOR_RANGES)):
        return np.zeros(len(held.row), np.int64), [NO_RANGE]
    number, paths = call_paths(whole, allocating_calls(whole, held))
    return np.where(number == MISSING, len(paths), number), [*paths, NO_RANGE]


def allocating_calls(whole: Capture, held: Allocations) -> NDArray[Any]:
    """Return the position of the call that made each allocation; -1 for none."""
    call, pairs = np.full(whole.count(MEMORY_USE), -1), launch_pairs_of(whole, MEMORY_USE)
    call[pairs.operation] = pairs.api
    return call[held.row]
