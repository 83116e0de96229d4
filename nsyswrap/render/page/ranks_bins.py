"""Steps of several ranks, put into as many columns as fit: each rank's own GPU time against the others'.

A step is an NVTX range that occurs on several ranks, the k-th of one with the k-th of the others. Where there
are more than fit, a column is the mean of several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.units import Unit
from nsyswrap.reports.table import Column, Report, no_capture, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.ranks.job import Job
    from nsyswrap.analysis.ranks.steps import Steps
    from nsyswrap.reports.table import Table

_CELLS = 6_400  # of all ranks together
_FEWEST, _MOST = 10, 200  # bins
_TELLING = 0.5  # of the most GPU time that ranges of one name hold
SLOWER_PERCENT = (2, 5, 10, 20, 50, 100)  # than the median of the ranks: where the next shade begins


@dataclass(frozen=True)
class Bins:
    """Steps by columns: ``width`` of the ``count`` steps to each, in the last one the rest.

    ``own_ns`` is the mean own GPU time of a step, by rank and column.
    """

    name: str
    labels: tuple[str, ...]
    count: int
    width: int
    own_ns: NDArray[Any]

    @property
    def median_ns(self) -> NDArray[Any]:
        """The median over the ranks, a value per column."""
        return np.median(self.own_ns, axis=0)  # type: ignore[no-any-return]

    @property
    def shades(self) -> NDArray[Any]:
        """How much slower each cell is than the median of its column, as the number of a shade."""
        middle = np.maximum(self.median_ns, 1)
        return np.digitize((self.own_ns / middle - 1) * 100, SLOWER_PERCENT)  # type: ignore[no-any-return]

    def steps(self, column: int) -> tuple[int, int]:
        """Return the first and the last step of a column, from 0."""
        return column * self.width, min((column + 1) * self.width, self.count) - 1


def most_telling(every: Sequence[Steps]) -> Steps | None:
    """Return the ranges that hold much of the own GPU time; of several the most frequent, then the outer."""
    holding = [(int(step.own_ns.sum()), step) for step in every if step.on_gpu]
    most = max((own for own, _ in holding), default=0)
    telling = (step for own, step in holding if own >= _TELLING * most)
    return max(telling, key=lambda step: step.own_ns.shape[1], default=None)


def binned(job: Job, found: Steps) -> Bins:
    """Put steps into as many columns as the page has room for."""
    ranks, count = found.own_ns.shape
    room = min(max(_CELLS // ranks, _FEWEST), _MOST)
    width = -(-count // room)
    first = np.arange(0, count, width)
    sums = np.add.reduceat(found.own_ns, first, axis=1)
    labels = tuple(job.members[number].label for number in found.ranks)
    return Bins(found.name, labels, count, width, sums / np.diff(np.append(first, count)))


def numbers(bins: Bins) -> Table:
    """Return a row per column of the picture, with the mean of each rank."""
    columns = (
        Column("first_step", "First", Unit.NUMBER, "first step of the row, from 0"),
        Column("last_step", "Last", Unit.NUMBER, "its last step"),
        Column("median_own_ns", "Median", Unit.NS, "median over the ranks"),
        *(
            Column(
                f"{label} own_ns", label, Unit.NS, f"own GPU time of {label} a step, the mean of the row's"
            )
            for label in bins.labels
        ),
    )
    report = Report("ranks_by_step", "Ranks by step", "analysis", (("nvtx",),), columns, no_capture)
    times = zip(bins.median_ns.tolist(), *bins.own_ns.tolist(), strict=True)
    return table_of(report, [(*bins.steps(column), *row) for column, row in enumerate(times)])
