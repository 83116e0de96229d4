"""One piece of advice, and the quantities of a capture that several checks share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of, pieces_of, windows
from nsyswrap.analysis.launches import launches_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_gaps import Gaps
    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.analysis.launches import Launches
    from nsyswrap.capture.capture import Capture

WORTH_PERCENT = 5.0  # of the time from the first to the last operation; less is not worth advice


@dataclass(frozen=True)
class Advice:
    """One possible problem, with its evidence and what to do about it.

    ``potential_ns`` is the time concerned, the most that a change can save; None for doubts about figures.
    ``unless`` says when the advice is wrong. ``see`` names the report with the rows behind the evidence.
    """

    name: str
    what: str
    potential_ns: int | None
    evidence: str
    do: str
    unless: str
    see: str


class AdviceContext:
    """A capture, with the quantities that several checks use, each computed on first use."""

    def __init__(self, capture: Capture, least_percent: float = WORTH_PERCENT) -> None:
        """Take the smallest share of the window, in percent, that is worth advice."""
        self.capture, self.least_percent = capture, least_percent

    @cached_property
    def operations(self) -> GpuOperations:
        """The selected operations on GPUs."""
        return gpu_operations_of(self.capture)

    @cached_property
    def pieces(self) -> GpuOperations:
        """The selected operations, one piece in each selected NVTX range: for times, not for counts."""
        return pieces_of(self.capture)

    @cached_property
    def gaps(self) -> Gaps:
        """The gaps between the selected operations."""
        return gaps_of(self.capture)

    @cached_property
    def launches(self) -> Launches:
        """The selected launches."""
        return launches_of(self.capture)

    @cached_property
    def after_repeat(self) -> NDArray[Any]:
        """Mark the gaps that end with a repeated launch of a kernel or graph by the same process."""
        calls = self.launches.call[~self.launches.first]
        return np.isin(self.gaps.call, calls)

    @cached_property
    def window_ns(self) -> int:
        """The selected time, or that from the first to the last operation, over processes and devices."""
        return sum(
            windows(self.capture, self.operations.of(rows)).length
            for _, _, rows in self.operations.by_device()
        )

    def percent(self, ns: int) -> float:
        """Return a time as a percentage of the window."""
        return 100.0 * ns / self.window_ns if self.window_ns else 0.0

    def worth(self, ns: int) -> bool:
        """Return True if a time is a large enough share of the window for advice."""
        return ns > 0 and self.percent(ns) >= self.least_percent
