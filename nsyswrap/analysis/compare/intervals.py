"""The interval of the change of many rows at once, and how many runs would make it narrow enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.base.lazy import lazy_imports

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.compare.noise import Sample
with lazy_imports():
    from scipy import special

MOST_RUNS = 100  # more a side that could be advised
_PROBABLY = 0.84  # standard errors that leave 80 %


class Interval(NamedTuple):
    """The log of new / base of rows, and its interval."""

    change: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]


def interval(base: Sample, new: Sample, rate: NDArray[Any]) -> Interval:
    """Return Welch's interval, which misses the true change of a row at its ``rate``."""
    error, freedom = _error(base, new, 0.0)
    half = error * _quantile(freedom, rate)
    change = new.mean - base.mean
    return Interval(change, change - half, change + half)


def runs_to_decide(base: Sample, new: Sample, rate: NDArray[Any], tolerance: float) -> NDArray[Any]:
    """Return how many more runs a side would decide each row in 80 % of cases; 0 if over MOST_RUNS would.

    The change and the spread are taken as they are. The interval must then lie wholly on one side of each of
    ``tolerance`` and its negative.
    """
    room = np.abs(np.abs(new.mean - base.mean) - tolerance)

    def decides(more: NDArray[Any]) -> NDArray[Any]:
        error, freedom = _error(base, new, more)
        return np.asarray(error * (_quantile(freedom, rate) + _PROBABLY) <= room)

    low, high = np.zeros(len(room)), np.full(len(room), float(MOST_RUNS))
    possible = decides(high)
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        enough = decides(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(possible, high, 0).astype(int)


def _error(base: Sample, new: Sample, more: NDArray[Any] | float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the standard error of the change and its degrees of freedom, with ``more`` runs a side."""
    parts = [side.variance / (side.runs + more) for side in (base, new)]
    freedoms = [side.freedom + more for side in (base, new)]
    total = parts[0] + parts[1]
    return np.sqrt(total), total**2 / sum(
        part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True)
    )


def _quantile(freedom: NDArray[Any], rate: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(special.stdtrit(freedom, 1 - rate / 2))
