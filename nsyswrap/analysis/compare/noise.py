"""The noise between runs, the interval of a row's change, and how many runs would make it narrow enough.

Three or five runs show the spread of a row badly: by chance it is often far too small. Rows of one kind in
the same runs (kernels with kernels) show how much spread is usual, and how much that differs from row to row.
This is the empirical Bayes estimate of variances by G. K. Smyth (Statistical Applications in Genetics and
Molecular Biology 3, 2004). Here it never lowers a spread, and a row much noisier than its kind stands alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base.lazy import lazy_imports

with lazy_imports():
    from scipy import special


MOST_RUNS = 100  # more a side that could be advised
_PROBABLY = 0.84  # standard errors that leave 80 %


class ConfidenceInterval(NamedTuple):
    """The log of new / base of rows, and its interval."""

    change: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]


def interval(base: LogSample, new: LogSample, rate: NDArray[Any]) -> ConfidenceInterval:
    """Return Welch's interval, which misses the true change of a row at its ``rate``."""
    error, freedom = _error(base, new, 0.0)
    half = error * _quantile(freedom, rate)
    change = new.mean - base.mean
    return ConfidenceInterval(change, change - half, change + half)


def runs_to_decide(base: LogSample, new: LogSample, rate: NDArray[Any], room: NDArray[Any]) -> NDArray[Any]:
    """Return how many more runs a side would decide each row in 80 % of cases; 0 if over MOST_RUNS would.

    The change and the spread are taken as they are. Half of the interval must then be within the ``room``.
    """

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


def _error(base: LogSample, new: LogSample, more: NDArray[Any] | float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the standard error of the change and its degrees of freedom, with ``more`` runs a side."""
    parts = [side.variance / (side.runs + more) for side in (base, new)]
    freedoms = [side.freedom + more for side in (base, new)]
    total = parts[0] + parts[1]
    return np.sqrt(total), total**2 / sum(
        part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True)
    )


def _quantile(freedom: NDArray[Any], rate: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(special.stdtrit(freedom, 1 - rate / 2))


FEWEST_ROWS = 5  # of a kind, to learn from each other
_MOST_FREEDOM = 40.0  # that a row gets from its kind: rows of a run are not independent of each other
_OUTLIER = 4.0  # times the usual variance: such a row has a noise of its own
_EXACT = 1e-6  # relative
_LEAST_VARIANCE = 1e-8  # (0.01 %)²: timestamps are no better


class LogSample(NamedTuple):
    """A side's rows: mean of the logs of the runs, its variance, the number of runs, degrees of freedom."""

    mean: NDArray[Any]
    variance: NDArray[Any]
    runs: NDArray[Any]
    freedom: NDArray[Any]

    def of(self, rows: NDArray[Any]) -> LogSample:
        """Return the selected rows."""
        return LogSample(*(values[rows] for values in self))


def sample(logs: NDArray[Any], errors: NDArray[Any]) -> LogSample:
    """Return the figures of rows from the logs of their typical times.

    ``logs`` and ``errors``, the standard errors within each run, are of shape (rows, runs), NaN where a run
    lacks the row. Each row must be in two runs. The variance is never below that within the runs.
    """
    runs = np.count_nonzero(~np.isnan(logs), axis=1)
    within = np.nanmean(np.square(errors), axis=1)
    variance = np.nanvar(logs, axis=1, ddof=1)
    variance = np.maximum(np.maximum(variance, within), _LEAST_VARIANCE)
    return LogSample(np.nanmean(logs, axis=1), variance, runs, runs - 1.0)


def with_usual_noise(base: LogSample, new: LogSample, kinds: NDArray[Any]) -> tuple[LogSample, LogSample]:
    """Return both sides with no spread below what is likely among rows of the same kind.

    ``kinds`` has a number for each row. The usual spread is that of both sides together.
    """
    sides = [LogSample(*(values.astype(float) for values in side)) for side in (base, new)]
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(kinds == kind)
        if len(rows) < FEWEST_ROWS:
            continue
        own = [side.of(rows) for side in sides]
        usual, freedom = _usual(
            np.concatenate([side.variance for side in own]), np.concatenate([side.freedom for side in own])
        )
        for side, mine in zip(sides, own, strict=True):
            likely = (freedom * usual + mine.freedom * mine.variance) / (freedom + mine.freedom)
            alone = mine.variance > _OUTLIER * usual
            side.variance[rows] = np.maximum(mine.variance, likely)
            side.freedom[rows] = np.where(alone, mine.freedom, mine.freedom + freedom)
    return sides[0], sides[1]


def _usual(variance: NDArray[Any], freedom: NDArray[Any]) -> tuple[float, float]:
    """Return the usual variance, and how many degrees of freedom its knowledge is worth.

    The logs of sampled variances have a known mean and spread around the true ones. What they spread beyond
    it is the difference between rows: the less there is, the more a row can learn from the others.
    """
    half = freedom / 2
    logs = np.log(variance) - special.digamma(half) + np.log(half)
    beyond = float(np.var(logs, ddof=1) - np.mean(special.zeta(2, half)))
    more = 2 * _inverse_trigamma(beyond) if beyond > 0 else np.inf
    more = min(more, _MOST_FREEDOM)
    return float(np.exp(np.mean(logs) + special.digamma(more / 2) - np.log(more / 2))), more


def _inverse_trigamma(value: float) -> float:
    """Solve trigamma(x) = zeta(2, x) = value > 0 by Newton's method, from a start that is never too large."""
    x, step = 0.5 + 1 / value, 1.0
    while abs(step) > _EXACT * x:
        trigamma = float(special.zeta(2, x))
        step = trigamma * (trigamma / value - 1) / (2 * float(special.zeta(3, x)))
        x += step
    return x
