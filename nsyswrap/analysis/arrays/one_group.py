"""Statistics of a few groups, or of all rows as one: values are selected at their places, and not sorted."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import MOST, PART, Statistics, check_sum, largest_first
from nsyswrap.capture.export import EXACT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_SAMPLED = 61  # one value in so many is in a sample; no usual number of launches in a step divides by it


class OneGroup:
    """All rows as one group: the statistics of columns of integers, each an array of one entry.

    They are those of ``Groups``, but for the last digits of the deviation.
    """

    def __init__(self) -> None:
        """Begin without a column."""
        self._last: tuple[NDArray[Any], _Selection] | None = None

    def of(self, values: NDArray[Any]) -> Statistics:
        """Return the statistics of one integer per row, as ``Groups.of`` does."""
        count, ordered = len(values), self._selection(values)
        lowest, highest = (int(values.min()), int(values.max())) if count else (0, 0)
        if max(highest, -lowest) > MOST // max(count, 1):
            check_sum(values)
        total, squares = int(values.sum(dtype=np.int64)), 0.0
        mean = total / count if count else np.nan
        for at in range(0, count, PART):
            deviations = values[at : at + PART] - mean
            deviations *= deviations
            squares += float(deviations.sum())
        median = ordered.mean((count - 1) // 2, count // 2)
        figures = count, total, mean, median, lowest, highest, np.sqrt(squares / max(count - 1, 1))
        return Statistics(*(np.array([figure]) for figure in figures))

    def quantile(self, values: NDArray[Any], share: float) -> NDArray[Any]:
        """Return a quantile, as ``Groups.quantile`` does."""
        place = Fraction(str(share)) * len(values)
        high = min(int(place), len(values) - 1)
        low = int(place) - 1 if place.denominator == 1 and place > 0 else high
        return np.array([self._selection(values).mean(low, high)])

    def _selection(self, values: NDArray[Any]) -> _Selection:
        if self._last is None or self._last[0] is not values:
            self._last = values, _Selection(values)
        return self._last[1]


class _Selection:
    """Values of which those at a few places of their order are selected, without sorting all.

    A sample tells between which values the wanted one lies. The few values between these are sorted.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        self._values, self._sample = values, np.sort(values[::_SAMPLED])

    def mean(self, low: int, high: int) -> float:
        """Return the mean of the values at two adjacent places, or one, of the sorted values."""
        if not len(self._values):
            return np.nan
        below, ordered = self._around(low, high)
        if low < below or high >= below + len(ordered):  # the sample was not like the rest
            below, ordered = 0, np.sort(self._values)
        return (int(ordered[low - below]) + int(ordered[high - below])) / 2

    def _around(self, low: int, high: int) -> tuple[int, NDArray[Any]]:
        """Return the sorted values near these places, and how many values are less than each of them."""
        last = len(self._sample) - 1
        margin = 2 * int(len(self._sample) ** 0.5) + 1  # four standard errors of a median's place
        first, behind = max(low // _SAMPLED - margin, 0), min(high // _SAMPLED + margin, last)
        ends = np.iinfo(self._values.dtype)
        least = self._sample[first] if first else ends.min
        most = self._sample[behind] if behind < last else ends.max
        below, equal, near = 0, 0, []
        for at in range(0, len(self._values), PART):
            part = self._values[at : at + PART]
            enough = part >= least
            below += len(part) - int(np.count_nonzero(enough))
            enough &= part <= most
            if least == most:
                equal += int(np.count_nonzero(enough))
            else:
                near.append(part[enough])
        return below, np.sort(np.concatenate(near)) if near else np.broadcast_to(least, equal)


def largest(totals: NDArray[Any], most: int) -> NDArray[Any]:
    """Return the positions, ascending, of the largest numbers; of equal ones the first count."""
    return np.sort(largest_first(totals, most))


def of_some(codes: NDArray[Any], values: NDArray[Any], some: Iterable[int]) -> Statistics:
    """Return the statistics of some groups; ``codes`` has the group of each value."""
    parts = [OneGroup().of(_of_group(codes, values, code)) for code in some]
    return Statistics(*(np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])))


def _of_group(codes: NDArray[Any], values: NDArray[Any], group: int) -> NDArray[Any]:
    """Return the values of a group. Indexing by marks without a pattern takes four times as long."""
    blocks = (slice(at, at + PART) for at in range(0, max(len(codes), 1), PART))
    return np.concatenate([values[rows].compress(codes[rows] == group) for rows in blocks])


def exact_totals(codes: NDArray[Any], values: NDArray[Any], groups: int) -> NDArray[Any] | None:
    """Return the sum of each group; None if float sums may be inexact."""
    totals = np.zeros(groups)
    for at in range(0, len(codes), PART):
        totals += np.bincount(codes[at : at + PART], values[at : at + PART], groups)
    return totals if values.min(initial=0) >= 0 and totals.sum() < EXACT else None
