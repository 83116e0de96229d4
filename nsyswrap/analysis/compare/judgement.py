"""Judge rows: is the new side slower, faster or the same, as far as the noise between runs lets one tell.

The run is the unit. A row has one value a run: the mean time of one launch, copy or step, so another number
of launches is no slower kernel; of a call or range the typical time. The difference of the sides' mean logs
has a Welch interval with the usual noise of its kind. A row is slower if its interval lies wholly above
``max_slower`` of ``SlowdownLimits``, faster if wholly below its negative, the same if wholly between. A row
with a mean is the same only if its typical time is, too: a mean hides what few long steps of the base cost.

``error_rate`` there is that of all intervals together. Totals, steps and launch overhead have one half of
it, the other rows the other half, and the rows of a half share it equally (Bonferroni). Only rows that are
judged count; which are is decided without looking at the differences. ``bounds`` has one-sided intervals of
some rows, for a gate.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.compare.model import (
    COSTED,
    FEWEST_RUNS,
    GROUPS,
    HEADLINE,
    Judgement,
    Key,
    PairedFigures,
    SlowdownLimits,
)
from nsyswrap.analysis.compare.step_rows import FIRST_CALL
from nsyswrap.analysis.finding import Note
from nsyswrap.base.lazy import lazy_imports

with lazy_imports():
    from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nsyswrap.analysis.compare.model import Outcome, RowFigures, Side
    from nsyswrap.analysis.compare.pairing import PairedRows

    Values = tuple[NDArray[Any], NDArray[Any]]

_FIRST_CALL = Key("launch", FIRST_CALL)  # a mean over kernels: each takes another time
NO_COST = Note("no_cost", {})
FEWEST_CLOCK_SAMPLES = 5  # a side
_WIDEST = 20.0  # log of a ratio: beyond it a change means nothing, and could overflow
_SAME_SIZE = 0.01  # bytes of a copy, relative
_GROUPS = list(GROUPS)
MOST_RUNS = 100  # more a side that could be advised
_PROBABLY = 0.84  # standard errors that leave 80 %


# The noise between runs, the interval of a row's change, and how many runs would make it narrow enough.
#
# Three or five runs show the spread of a row badly: by chance it is often far too small. Rows of one kind in
# the same runs (kernels with kernels) show how much spread is usual, and how much it differs between rows.
# This is the empirical Bayes estimate of variances by G. K. Smyth (Statistical Applications in Genetics and
# Molecular Biology 3, 2004). It never lowers a spread here, and a row much noisier than its kind is alone.


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


# The judgement of rows.


class SideClocks(NamedTuple):
    """The SM clock of each run of both sides in MHz; None where it is not known."""

    base: tuple[float | None, ...] = ()
    new: tuple[float | None, ...] = ()

    @classmethod
    def of(cls, base: Side, new: Side) -> SideClocks:
        """Return those of two sides."""
        return cls(*(tuple(run.setup.sm_clock_mhz for run in side.runs) for side in (base, new)))

    @property
    def slowdown(self) -> float:
        """The log of the time that the clocks alone would make of a base run; 0 if not known."""
        sides = [[math.log(clock) for clock in side if clock] for side in self]
        return float(np.mean(sides[0]) - np.mean(sides[1])) if all(sides) else 0.0

    def note(self, kind: str) -> Note:
        """Return a note with the medians of both sides."""
        sides = [[clock for clock in side if clock] for side in self]
        base, new = (median(side) if side else None for side in sides)
        return Note(kind, {"base_mhz": base, "new_mhz": new})


def judge(
    rows: PairedRows, limits: SlowdownLimits, clocks: SideClocks | None = None, rate: float | None = None
) -> Judgement:
    """Return the judgement of one row alone; ``rate`` is how often its interval may be wrong."""
    alone = limits if rate is None else replace(limits, error_rate=rate)
    return judge_rows([rows], alone, clocks)[0]


def judge_rows(
    rows: Sequence[PairedRows], limits: SlowdownLimits, clocks: SideClocks | None = None
) -> list[Judgement]:
    """Return the judgement of each row of a comparison."""
    reasons = [why_not_judged(row, limits) for row in rows]
    judgements = [
        replace(unjudged(row, reason), is_small=row.in_both and is_small(row, limits))
        for row, reason in zip(rows, reasons, strict=True)
    ]
    places = [place for place, reason in enumerate(reasons) if not reason]
    if places:
        found = _judge([rows[place] for place in places], limits, clocks or SideClocks())
        for place, judgement in zip(places, found, strict=True):
            judgements[place] = judgement
    return judgements


def unjudged(rows: PairedFigures, why: Note | None) -> Judgement:
    """Return that a row was not judged, with the ratio of the medians if it is known."""
    sides = [
        [value for row in side if row and (value := judged_ns(rows, row))] for side in (rows.base, rows.new)
    ]
    ratio = median(sides[1]) / median(sides[0]) if all(sides) else None
    return Judgement("not judged", ratio, why=(why,) if why else ())


def is_about_the_clock(judgement: Judgement) -> bool:
    """Return True if another SM clock could be all of the difference, whatever the number of runs."""
    reasons = {reason.kind for reason in judgement.why}
    return judgement.outcome == "cannot tell" and "clock_cause" in reasons


def why_not_judged(rows: PairedFigures, limits: SlowdownLimits) -> Note | None:
    """Return why a row cannot be judged; None if it can."""
    if not rows.in_both:
        return Note("added" if any(rows.new) else "removed", {})
    if is_small(rows, limits):
        return Note("under_min_time", {"min_time_ns": limits.min_time_ns})
    for side, name in ((rows.base, "base"), (rows.new, "new")):
        present = [row for row in side if row]
        if all(_typical(rows, row) is None and row.typical_ns is None for row in present):
            return Note("only_first_launches", {})
        absent = sum(not (row and _typical(rows, row) and judged_ns(rows, row)) for row in side)
        if absent and (rows.key.group != "kernel" or len(side) - absent < FEWEST_RUNS):
            kind = "absent_from_runs" if len(present) < len(side) else "no_time_in_runs"
            return Note(kind, {"absent": absent, "runs": len(side), "side": name})
        if len(side) < FEWEST_RUNS:
            return Note("few_runs_of_side", {"fewest": FEWEST_RUNS, "side": name})
    return _other_work(rows)


def _other_work(rows: PairedFigures) -> Note | None:
    """Return that both sides' events are not of the same work; None if they are."""
    base, new = _counts(rows)
    if rows.key == _FIRST_CALL and base != new:
        return Note("other_kernels", {"base": base, "new": new})
    return Note("other_sizes", {}) if _sizes_differ(rows) else None


def is_small(rows: PairedFigures, limits: SlowdownLimits) -> bool:
    """Return True if both sides spend less than the smallest time at stake on a row."""
    return all(
        median(row.total_ns if row else 0 for row in side) < limits.min_time_ns
        for side in (rows.base, rows.new)
    )


def _counts(rows: PairedFigures) -> tuple[float, float]:
    base, new = (float(median(row.count if row else 0 for row in side)) for side in (rows.base, rows.new))
    return base, new


def judged_ns(rows: PairedFigures, row: RowFigures) -> float | None:
    """Return the time that is judged: the mean of all where the cost of each run is known, else the typical.

    It is None if the run does not have it, or if it is 0, which has no log.
    """
    if rows.key.group not in COSTED or not rows.has_cost:
        return _typical(rows, row)
    value = row.total_ns / (1 if rows.key.group == "total" else row.count) if row.count else 0.0
    return value if value > 0 else None


def _typical(rows: PairedFigures, row: RowFigures) -> float | None:
    value = row.typical_ns
    if value is None and row.count and (rows.key.group in HEADLINE or rows.all_first):
        value = row.total_ns / row.count
    return value if value and value > 0 else None


def _sizes_differ(rows: PairedFigures) -> bool:
    sizes = [
        [row.size_bytes / row.count for row in side if row and row.size_bytes and row.count]
        for side in (rows.base, rows.new)
    ]
    return all(sizes) and abs(math.log(median(sizes[1]) / median(sizes[0]))) > _SAME_SIZE


def _judge(rows: Sequence[PairedRows], limits: SlowdownLimits, clocks: SideClocks) -> list[Judgement]:
    # Each row has the error rate of its half, shared.
    headline = np.array([row.key.group in HEADLINE for row in rows])
    number = np.where(headline, headline.sum(), (~headline).sum())
    rates = np.asarray(limits.error_rate / len(set(headline.tolist())) / number)
    sides = _logs(rows, "base"), _logs(rows, "new")
    times = Verdicts(*sides, _kinds(rows), rates, limits)
    typical = Verdicts(*_typical_logs(rows), _kinds(rows), rates, limits)
    judged = []
    for place, row in enumerate(rows):
        time = times.of(place)
        if row.key.group in COSTED:
            time = _with_typical(time, typical.of(place), has_cost=row.has_cost)
        judged.append(_with_stake(row, _with_clock(row, time, limits, clocks), limits))
    return judged


def _with_typical(mean: Judgement, typical: Judgement, *, has_cost: bool) -> Judgement:
    """Return the judgement of a row by its mean; where both are not the same, it is not the same."""
    if not has_cost:
        return replace(mean, why=(NO_COST,))
    made = replace(mean, typical=typical.ratio)
    if mean.outcome != "same" or typical.outcome == "same":
        return made
    why = (typical_change(typical.ratio),)
    return replace(made, outcome="cannot tell", more_runs=typical.more_runs, why=why)


def typical_change(ratio: float | None) -> Note:
    """Return the change of the typical time as the reason of an outcome."""
    return Note("typical_change", {"ratio": ratio or 1})


def _kinds(rows: Sequence[PairedFigures]) -> NDArray[Any]:
    return np.array([_GROUPS.index(row.key.group) for row in rows])


def _logs(
    rows: Sequence[PairedFigures],
    side: str,
    value_of: Callable[[PairedFigures, RowFigures], float | None] = judged_ns,
) -> Values:
    """Return the logs of the values and their errors, of shape (rows, runs), NaN where a run lacks one."""
    shape = (len(rows), max(len(getattr(row, side)) for row in rows))
    logs, errors = np.full(shape, np.nan), np.full(shape, np.nan)
    for place, own in enumerate(rows):
        is_mean = value_of is judged_ns and own.key.group in COSTED and own.has_cost
        for run, row in enumerate(getattr(own, side)):
            value = value_of(own, row) if row else None
            if row and value:
                logs[place, run] = math.log(value)
                errors[place, run] = row.mean_error if is_mean else row.error
    return logs, errors


def _typical_logs(rows: Sequence[PairedFigures]) -> tuple[Values, Values]:
    return _logs(rows, "base", _typical), _logs(rows, "new", _typical)


def ratio_of(change: float) -> float:
    """Return the ratio whose log is ``change``, within bounds."""
    return math.exp(min(max(change, -_WIDEST), _WIDEST))


class Verdicts:
    """What the intervals of rows say.

    Each side has the logs of the values and their errors within the run, of shape (rows, runs), NaN where a
    run lacks the row. ``kinds`` and ``rates`` have a number for each row: see ``with_usual_noise``, and how
    often its interval may be wrong.
    """

    def __init__(
        self, base: Values, new: Values, kinds: NDArray[Any], rates: NDArray[Any], limits: SlowdownLimits
    ) -> None:
        self.sides = with_usual_noise(sample(*base), sample(*new), kinds)
        self._rates = rates
        self._tolerance = math.log1p(limits.max_slower)
        self.interval: ConfidenceInterval = interval(*self.sides, rates)
        ends = zip(self.interval.low.tolist(), self.interval.high.tolist(), strict=True)
        self.outcomes = [self._outcome(*both) for both in ends]

    def of(self, row: int) -> Judgement:
        """Return the judgement of a row."""
        ratio, low, high = (ratio_of(float(values[row])) for values in self.interval)
        return Judgement(self.outcomes[row], ratio, low, high, more_runs=self._more_runs.get(row))

    @cached_property
    def _more_runs(self) -> dict[int, int]:
        """How many more runs would decide the undecided rows, by place, where some number would."""
        places = np.flatnonzero([outcome == "cannot tell" for outcome in self.outcomes])
        base, new = (side.of(places) for side in self.sides)
        room = np.abs(np.abs(self.interval.change[places]) - self._tolerance)
        more = runs_to_decide(base, new, self._rates[places], room)
        return {place: runs for place, runs in zip(places.tolist(), more.tolist(), strict=True) if runs}

    def _outcome(self, low: float, high: float) -> Outcome:
        if low > self._tolerance:
            return "slower"
        if high < -self._tolerance:
            return "faster"
        return "same" if low >= -self._tolerance and high <= self._tolerance else "cannot tell"


class Bounds(NamedTuple):
    """The log of new / base of a row, of the mean and of the typical time, with one-sided bounds.

    ``more_runs``: so many runs a side would probably put both on one side of the tolerance; 0 if no number.
    """

    mean: tuple[float, float, float]
    typical: tuple[float, float, float]
    more_runs: int


def bounds(
    rows: Sequence[PairedFigures], others: Sequence[PairedFigures], level: float, limits: SlowdownLimits
) -> list[Bounds]:
    """Return the bounds of rows that share the ``level``; the ``others`` only show what noise is usual."""
    if not rows:
        return []
    every, tolerance = [*rows, *others], math.log1p(limits.max_slower)
    rates = np.full(len(every), 2 * level / len(rows))
    means = _logs(every, "base"), _logs(every, "new")
    measures = [Verdicts(*both, _kinds(every), rates, limits) for both in (means, _typical_logs(every))]
    mean, typical = (one.interval.change for one in measures)
    is_slower = mean > tolerance  # then to be slower at all decides, else to be within the tolerance
    rooms = np.where(is_slower, mean, np.maximum(tolerance - mean, 0)), np.maximum(tolerance - typical, 0)
    of_mean, of_typical = (
        runs_to_decide(*one.sides, rates, room) for one, room in zip(measures, rooms, strict=True)
    )
    of_both = np.where(np.minimum(of_mean, of_typical) > 0, np.maximum(of_mean, of_typical), 0)
    more = np.where(is_slower, of_mean, of_both).tolist()
    ends = (zip(*(values.tolist() for values in one.interval), strict=True) for one in measures)
    return [Bounds(*made) for made in zip(*ends, more, strict=True)][: len(rows)]


def clocks_of(rows: PairedFigures, runs: SideClocks) -> SideClocks:
    """Return the clocks in the time of a row, where enough samples fell into it; else those of the runs."""
    sides = (rows.base, rows.new)
    samples = [sum(row.clock_samples for row in side if row) for side in sides]
    own = SideClocks(*(tuple(row.clock_mhz if row else None for row in side) for side in sides))
    return own if min(samples) >= FEWEST_CLOCK_SAMPLES and all(map(any, own)) else runs


def _with_clock(rows: PairedFigures, time: Judgement, limits: SlowdownLimits, runs: SideClocks) -> Judgement:
    """Return the judgement of a row after a look at the SM clock, if its time was found to differ.

    With the clock in its own time, its cycles are known. Else work that does not depend on the clock loses
    nothing by it, and other work at most as much as the clock.
    """
    if time.outcome not in ("slower", "faster") or time.low is None or time.high is None:
        return time
    clocks, tolerance = clocks_of(rows, runs), math.log1p(limits.max_slower)
    is_own, is_slower = clocks is not runs, time.outcome == "slower"
    sign = 1 if is_slower else -1
    by_clock = clocks.slowdown if is_own else sign * max(0.0, sign * clocks.slowdown)
    ends = sorted(sign * (math.log(end) - by_clock) for end in (time.low, time.high))
    if ends[0] > tolerance:
        return time
    if not is_own:
        return replace(time, outcome="cannot tell", why=(clocks.note("clock_cause"),))
    if ends[1] <= tolerance:
        return replace(time, outcome="clock", why=(clocks.note("clock"),))
    return replace(time, outcome="cannot tell", why=(clocks.note("clock_cycles"),))


def _with_stake(rows: PairedRows, judgement: Judgement, limits: SlowdownLimits) -> Judgement:
    """Return the judgement of a row after a look at its absolute time, with a note on what was compared."""
    base, new = _counts(rows)
    totals = [median(row.total_ns if row else 0 for row in side) for side in (rows.base, rows.new)]
    ratio = change = judgement.ratio or 1.0
    if judgement.outcome == "cannot tell":  # the most that it could be
        change = max(judgement.low or 1.0, judgement.high or 1.0, key=lambda end: abs(end - 1))
    # With other counts the total differs as well. At stake is the change of one, for the more of them.
    stake_ns = abs(change - 1) * max(totals[0], totals[1] / ratio)
    if judgement.outcome != "same" and stake_ns < limits.min_time_ns:
        why = Note("change_under_min_time", {"min_time_ns": limits.min_time_ns})
        return replace(judgement, outcome="not judged", more_runs=None, why=(why,), is_small=True)
    notes = [*judgement.why]
    if base != new and rows.key.group not in ("total", "module"):
        notes.append(Note("time_of_one", {"base": base, "new": new, "group": rows.key.group}))
    if rows.base_key:
        is_renamed = rows.base_key.name != rows.key.name
        notes.append(Note("base_row", {"name": rows.base_key.name if is_renamed else rows.base_key.detail}))
    if rows.all_first and rows.key.group == "kernel":
        notes.append(Note("first_launches_alone", {}))
    if rows.is_merged:
        notes.append(Note("modes_merged", {}))
    return replace(judgement, why=tuple(notes))
