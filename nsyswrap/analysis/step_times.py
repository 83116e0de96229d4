"""Time the steps of a program from the start of one to the start of the next, as a run without nsys can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.steps.occurrences import calls_by_process
from nsyswrap.analysis.steps.repeated_range import repeated_range
from nsyswrap.base.errors import NotInCapture

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture


@dataclass(frozen=True)
class StepTimes:
    """The NVTX range that marks the steps, its occurrences, and the median time in ns between two starts."""

    name: str
    count: int
    median_ns: float


def step_times(capture: Capture) -> StepTimes | None:
    """Return the steps of the process with most GPU work, warm-up included; None if no range marks steps.

    Raises NotInCapture without GPU work that was launched by a recorded call.
    """
    operations = gpu_operations_of(capture.whole)
    processes, work = np.unique(operations.global_pid[operations.call >= 0], return_counts=True)
    if not len(processes):
        raise NotInCapture("no GPU work with a CUDA call was recorded")
    [(process, calls)] = calls_by_process(capture.whole, [int(processes[work.argmax()])])
    steps = repeated_range(capture.whole, process, calls)
    if steps is None:
        return None
    return StepTimes(steps.label[1:-1], len(steps.start_ns), float(np.median(np.diff(steps.start_ns))))
