"""What to do about a run: findings with evidence, ranked by the time they concern.

There is one module per topic. Each function in its LOOKS takes a Situation and yields Findings. Their figures
come from the events. A share of time too small to matter is no finding. ``unless`` says when the advice is
wrong.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of, window
from nsyswrap.analysis.launches import launches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from nsyswrap.analysis.gpu_gaps import Gaps
    from nsyswrap.analysis.gpu_operations import GpuOperations
    from nsyswrap.analysis.launches import Launches
    from nsyswrap.capture.capture import Capture

    Check = Callable[["AdviceContext"], Iterator["Advice"]]

# In the order of what they say where nothing is at stake.
_MODULES = ("memory", "idle_gpu", "measurement")
WORTH_PERCENT = 5.0  # of the time between the first and the last operation; less is no finding


@dataclass(frozen=True)
class Advice:
    """One thing that may be wrong.

    ``at_stake_ns``: the time it concerns, which no change can save more of; None where it is not about time
    but about whether the figures hold. ``unless``: when the advice would be wrong. ``see``: the report that
    has the rows behind it.
    """

    name: str
    what: str
    at_stake_ns: int | None
    evidence: str
    do: str
    unless: str
    see: str


class AdviceContext:
    """A capture, and what several findings look at: made once, when first asked for.

    ``least_percent``: the share of the window from which on a time is worth a word.
    """

    def __init__(self, capture: Capture, least_percent: float = WORTH_PERCENT) -> None:
        self.capture, self.least_percent = capture, least_percent

    @cached_property
    def operations(self) -> GpuOperations:
        """All operations on GPUs that are selected."""
        return gpu_operations_of(self.capture)

    @cached_property
    def gaps(self) -> Gaps:
        """The gaps between them."""
        return gaps_of(self.capture)

    @cached_property
    def launches(self) -> Launches:
        """The launches that are selected."""
        return launches_of(self.capture)

    @cached_property
    def after_repeat(self) -> NDArray[Any]:
        """Marks gaps that end with the launch of a kernel or graph which its process had launched before."""
        calls = self.launches.call[~self.launches.first]
        return np.isin(self.gaps.call, calls)

    @cached_property
    def window_ns(self) -> int:
        """From the first to the last operation of each process on each device, summed."""
        ends = [window(self.capture, self.operations.of(rows)) for _, _, rows in self.operations.by_device()]
        return sum(last - first for first, last in ends)

    def percent(self, ns: int) -> float:
        """Return a time as percent of the window."""
        return 100.0 * ns / self.window_ns if self.window_ns else 0.0

    def worth(self, ns: int) -> bool:
        """Whether a time is enough of the window to speak of."""
        return ns > 0 and self.percent(ns) >= self.least_percent


def checks() -> tuple[Check, ...]:
    """Return every function that looks for something, by module, then as they stand there."""
    modules = [importlib.import_module(f"nsyswrap.analysis.advice.{name}") for name in _MODULES]
    return tuple(check for module in modules for check in module.CHECKS)


def advise(capture: Capture, least_percent: float = WORTH_PERCENT) -> list[Advice]:
    """Return what was found: first what puts the figures in doubt, then by time at stake, the most first."""
    situation = AdviceContext(capture, least_percent)
    found = [finding for check in checks() for finding in check(situation)]
    return sorted(found, key=lambda finding: (finding.at_stake_ns is not None, -(finding.at_stake_ns or 0)))
