"""Take the SM clock at which each kernel ran, from the samples of the run that fell into its own time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import check_pairs, group_keys, repeated
from nsyswrap.analysis.conditions import gpu_numbers, run_conditions_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.capture.capture import Capture


class Clocks(NamedTuple):
    """The mean SM clock in MHz of each group, NaN without samples, and the number of samples."""

    mhz: NDArray[Any]
    samples: NDArray[Any]


def clocks_of(capture: Capture, operations: GpuOperations, codes: NDArray[Any], groups: int) -> Clocks:
    """Return the clock of each group of operations.

    A sample counts if an operation of the group ran on its GPU at that moment; once, if several did. Samples
    of an idle clock, and the first of each stretch of work, do not count.
    """
    total, samples = np.zeros(groups), np.zeros(groups, np.int64)
    run = run_conditions_of(capture)
    if run is not None and run.gpus:
        numbers = gpu_numbers(capture, operations, run.facts)
        for gpu in run.gpus:
            known = gpu.worked & ~np.isnan(gpu.samples["sm_mhz"])
            time_ns = gpu.samples["time_ns"][known] - (capture.started_ns or 0)
            mine = np.flatnonzero(numbers == run.facts.gpus.index(gpu.gpu))
            group, sample = _met(operations.of(mine), codes[mine], time_ns)
            total += np.bincount(group, gpu.samples["sm_mhz"][known][sample], groups)
            samples += np.bincount(group, minlength=groups)
    return Clocks(np.where(samples > 0, total / np.maximum(samples, 1), np.nan), samples)


def _met(
    operations: GpuOperations, codes: NDArray[Any], time_ns: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each group and each sample that fell into the time of one of its operations."""
    first = np.searchsorted(time_ns, operations.start_ns)
    times = np.searchsorted(time_ns, operations.end_ns) - first
    hit = np.flatnonzero(times > 0)
    check_pairs(int(times[hit].sum()), len(times) + len(time_ns), "kernels and samples of the clock")
    row, nth = repeated(times[hit])
    _, (group, sample) = group_keys(codes[hit][row], first[hit][row] + nth)
    return group, sample
