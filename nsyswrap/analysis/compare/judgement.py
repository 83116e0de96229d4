"""Judge rows: is the new side slower, faster or the same, as far as the noise between runs lets one tell.

The run is the unit. A row has one value a run: the typical time of one launch, call, copy or step, so another
number of launches is no slower kernel. The difference of the sides' mean logs has a Welch interval with the
noise of ``noise``. A row is slower if its interval lies wholly above ``Limits.max_slower``, faster if wholly
below its negative, the same if wholly between.

``Limits.error_rate`` is that of all intervals together. Totals, steps and launch overhead have one half of
it, the other rows the other half, and the rows of a half share it equally (Bonferroni). Only rows that are
judged count; which are is decided without looking at the differences.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.compare.model import FEWEST_RUNS, GROUPS, HEADLINE, Judgement, Key, Limits
from nsyswrap.analysis.compare.noise import Interval, interval, runs_to_decide, sample, with_usual_noise
from nsyswrap.analysis.compare.step_rows import FIRST_CALL
from nsyswrap.base.units import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.compare.model import Group, Outcome, Row
    from nsyswrap.analysis.compare.pairing import Rows

    Values = tuple[NDArray[Any], NDArray[Any]]

_NOT_CHOSEN = "not in the gate"
_FIRST_CALL = Key("launch", FIRST_CALL)  # a mean over kernels: each takes another time
_CLOCK_CAUSE = " could be the cause"
FEWEST_CLOCK_SAMPLES = 5  # a side
_WIDEST = 20.0  # log of a ratio: beyond it a change means nothing, and could overflow
_SAME_SIZE = 0.01  # bytes of a copy, relative
_ONE_OF: dict[Group, str] = {
    "step": "steps",
    "budget": "steps",
    "launch": "launches",
    "kernel": "launches",
    "api": "calls",
    "copy": "copies",
    "range": "ranges",
}
_GROUPS = list(GROUPS)


class Clocks(NamedTuple):
    """The SM clock of each run of both sides in MHz; None where it is not known."""

    base: tuple[float | None, ...] = ()
    new: tuple[float | None, ...] = ()

    @property
    def slowdown(self) -> float:
        """The log of the time that the clocks alone would make of a base run; 0 if not known."""
        sides = [[math.log(clock) for clock in side if clock] for side in self]
        return float(np.mean(sides[0]) - np.mean(sides[1])) if all(sides) else 0.0

    def __str__(self) -> str:
        """Return the medians of both sides."""
        sides = [[clock for clock in side if clock] for side in self]
        return (
            "SM clock "
            + " / ".join(f"{median(side):.0f}" if side else "not known" for side in sides)
            + " MHz"
        )


def judge(rows: Rows, limits: Limits, clocks: Clocks | None = None, rate: float | None = None) -> Judgement:
    """Return the judgement of one row alone; ``rate`` is how often its interval may be wrong."""
    alone = limits if rate is None else replace(limits, error_rate=rate)
    return judge_rows([rows], alone, clocks)[0]


def judge_rows(
    rows: Sequence[Rows],
    limits: Limits,
    clocks: Clocks | None = None,
    family: Callable[[Key], bool] = lambda _: True,
) -> list[Judgement]:
    """Return the judgement of each row of a comparison.

    Only rows of the ``family`` share the error rate and get a verdict. The others show what noise is usual.
    """
    reasons = [_not_judged(row, limits) for row in rows]
    judgements = [
        replace(unjudged(row, reason), is_small=row.in_both and _is_small(row, limits))
        for row, reason in zip(rows, reasons, strict=True)
    ]
    places = [place for place, reason in enumerate(reasons) if not reason]
    judged = [rows[place] for place in places]
    chosen = np.array([family(row.key) for row in judged], bool)
    if chosen.any():
        found = _judge(judged, limits, clocks or Clocks(), chosen)
        for place, judgement, is_chosen in zip(places, found, chosen.tolist(), strict=True):
            judgements[place] = judgement if is_chosen else unjudged(rows[place], _NOT_CHOSEN)
    return judgements


def unjudged(rows: Rows, why: str) -> Judgement:
    """Return that a row was not judged, with the ratio of the medians if it is known."""
    sides = [
        [value for row in side if row and (value := _value(rows, row))] for side in (rows.base, rows.new)
    ]
    ratio = median(sides[1]) / median(sides[0]) if all(sides) else None
    return Judgement("not judged", ratio, why=why)


def is_about_the_clock(judgement: Judgement) -> bool:
    """Return True if another SM clock could be all of the difference, whatever the number of runs."""
    return judgement.outcome == "cannot tell" and _CLOCK_CAUSE in judgement.why


def _not_judged(rows: Rows, limits: Limits) -> str:
    """Return why a row cannot be judged; empty if it can."""
    if not rows.in_both:
        return "added" if any(rows.new) else "removed"
    if _is_small(rows, limits):
        return f"under {duration(limits.min_time_ns)} a run"
    for side, name in ((rows.base, "base"), (rows.new, "new")):
        present = [row for row in side if row]
        if all(row.typical_ns is None and _value(rows, row) is None for row in present):
            return "only first launches"
        absent = sum(not (row and _value(rows, row)) for row in side)
        if absent and (rows.key.group != "kernel" or len(side) - absent < FEWEST_RUNS):
            what = "absent from" if len(present) < len(side) else "no time in"
            return f"{what} {absent} of {len(side)} {name} runs"
        if len(side) < FEWEST_RUNS:
            return f"fewer than {FEWEST_RUNS} {name} runs"
    return _other_work(rows)


def _other_work(rows: Rows) -> str:
    """Return that both sides' events are not of the same work; empty if they are."""
    counts = _counts(rows)
    if rows.key == _FIRST_CALL and counts[0] != counts[1]:
        return f"other kernels: {counts[0]:g} / {counts[1]:g} first launches"
    return "copies of other sizes" if _sizes_differ(rows) else ""


def _is_small(rows: Rows, limits: Limits) -> bool:
    """Return True if both sides spend less than the smallest time at stake on a row."""
    return all(
        median(row.total_ns if row else 0 for row in side) < limits.min_time_ns
        for side in (rows.base, rows.new)
    )


def _counts(rows: Rows) -> tuple[float, float]:
    base, new = (float(median(row.count if row else 0 for row in side)) for side in (rows.base, rows.new))
    return base, new


def _value(rows: Rows, row: Row) -> float | None:
    """Return the time that is judged; None if the run does not have it, or if it is 0, which has no log."""
    value = row.typical_ns
    if value is None and row.count and (rows.key.group in HEADLINE or rows.all_first):
        value = row.total_ns / row.count
    return value if value and value > 0 else None


def _sizes_differ(rows: Rows) -> bool:
    sizes = [
        [row.size_bytes / row.count for row in side if row and row.size_bytes and row.count]
        for side in (rows.base, rows.new)
    ]
    return all(sizes) and abs(math.log(median(sizes[1]) / median(sizes[0]))) > _SAME_SIZE


def _judge(
    rows: Sequence[Rows], limits: Limits, clocks: Clocks, chosen: NDArray[np.bool_]
) -> list[Judgement]:
    rates = _rates(rows, limits, chosen)
    kinds = np.array([_GROUPS.index(row.key.group) for row in rows])
    sides = [_logs(rows, side) for side in ("base", "new")]
    times = Verdicts(sides[0], sides[1], kinds, rates, limits)
    cycles = _cycles(rows, sides, rates, limits)
    return [
        _with_stake(row, _with_clock(row, times.of(place), cycles.get(place), limits, clocks), limits)
        for place, row in enumerate(rows)
    ]


def _rates(rows: Sequence[Rows], limits: Limits, chosen: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the error rate of each row: that of a chosen one of its half."""
    headline = np.array([row.key.group in HEADLINE for row in rows])
    number = np.where(headline, (headline & chosen).sum(), (~headline & chosen).sum())
    shares = 1 if headline[chosen].all() or not headline[chosen].any() else 2
    return np.asarray(limits.error_rate / shares / np.maximum(number, 1))


def _logs(rows: Sequence[Rows], side: str) -> Values:
    """Return the logs of the values and their errors, of shape (rows, runs), NaN where a run lacks one."""
    shape = (len(rows), max(len(getattr(row, side)) for row in rows))
    logs, errors = np.full(shape, np.nan), np.full(shape, np.nan)
    for place, own in enumerate(rows):
        for run, row in enumerate(getattr(own, side)):
            value = _value(own, row) if row else None
            if row and value:
                logs[place, run], errors[place, run] = math.log(value), row.error
    return logs, errors


class Verdicts:
    """What the intervals of rows say.

    Each side has the logs of the values and their errors within the run, of shape (rows, runs), NaN where a
    run lacks the row. ``kinds`` and ``rates`` have a number for each row: see ``with_usual_noise``, and how
    often its interval may be wrong.
    """

    def __init__(
        self, base: Values, new: Values, kinds: NDArray[Any], rates: NDArray[Any], limits: Limits
    ) -> None:
        self._sides = with_usual_noise(sample(*base), sample(*new), kinds)
        self._rates = rates
        self._tolerance = math.log1p(limits.max_slower)
        self._interval: Interval = interval(*self._sides, rates)
        ends = zip(self._interval.low.tolist(), self._interval.high.tolist(), strict=True)
        self.outcomes = [self._outcome(*both) for both in ends]

    def of(self, place: int) -> Judgement:
        """Return the judgement of a row."""
        logs = (min(max(float(values[place]), -_WIDEST), _WIDEST) for values in self._interval)
        ratio, low, high = map(math.exp, logs)
        return Judgement(self.outcomes[place], ratio, low, high, more_runs=self._more_runs.get(place))

    @cached_property
    def _more_runs(self) -> dict[int, int]:
        """How many more runs would decide the undecided rows, by place, where some number would."""
        places = np.flatnonzero([outcome == "cannot tell" for outcome in self.outcomes])
        base, new = (side.of(places) for side in self._sides)
        more = runs_to_decide(base, new, self._rates[places], self._tolerance)
        return {place: runs for place, runs in zip(places.tolist(), more.tolist(), strict=True) if runs}

    def _outcome(self, low: float, high: float) -> Outcome:
        if low > self._tolerance:
            return "slower"
        if high < -self._tolerance:
            return "faster"
        return "same" if low >= -self._tolerance and high <= self._tolerance else "cannot tell"


def _cycles(
    rows: Sequence[Rows],
    sides: Sequence[Values],
    rates: NDArray[Any],
    limits: Limits,
) -> dict[int, Judgement]:
    """Return the judgements of the cycles of the kernels with enough clock samples, by place."""
    cycles, samples = [], []
    for (logs, _), side in zip(sides, ("base", "new"), strict=True):
        clocks, number = np.full(logs.shape, np.nan), np.zeros(len(rows))
        for place, own in enumerate(rows):
            for run, row in enumerate(getattr(own, side)):
                if row and row.clock_mhz and row.clock_samples and own.key.group == "kernel":
                    clocks[place, run] = math.log(row.clock_mhz)
                    number[place] += row.clock_samples
        cycles.append(logs + clocks)
        samples.append(number)
    known = np.logical_and.reduce(
        [number >= FEWEST_CLOCK_SAMPLES for number in samples]
        + [np.count_nonzero(~np.isnan(values), axis=1) >= FEWEST_RUNS for values in cycles]
    )
    places = np.flatnonzero(known)
    if not len(places):
        return {}
    base, new = (
        (values[places], np.where(np.isnan(values), np.nan, errors)[places])
        for values, (_, errors) in zip(cycles, sides, strict=True)
    )
    verdicts = Verdicts(base, new, np.zeros(len(places)), rates[places], limits)
    return {place: verdicts.of(number) for number, place in enumerate(places.tolist())}


def _with_clock(
    rows: Rows, time: Judgement, cycles: Judgement | None, limits: Limits, clocks: Clocks
) -> Judgement:
    """Return the judgement of a row after a look at the SM clock, if its time was found to differ."""
    if time.outcome not in ("slower", "faster") or time.low is None or time.high is None:
        return time
    if cycles:
        own = Clocks(
            *(tuple(row.clock_mhz if row else None for row in side) for side in (rows.base, rows.new))
        )
        if cycles.outcome == time.outcome:
            return time
        if cycles.outcome == "cannot tell":
            why = f"{own}; the cycles could still differ"
            return replace(time, outcome="cannot tell", more_runs=cycles.more_runs, why=why)
        return replace(time, outcome="clock", why=str(own))
    # Work that does not depend on the clock loses nothing by it; other work at most as much as the clock.
    tolerance = math.log1p(limits.max_slower)
    certain = (
        math.log(time.low) - max(0.0, clocks.slowdown) > tolerance
        if time.outcome == "slower"
        else math.log(time.high) + max(0.0, -clocks.slowdown) < -tolerance
    )
    return time if certain else replace(time, outcome="cannot tell", why=f"{clocks}{_CLOCK_CAUSE}")


def _with_stake(rows: Rows, judgement: Judgement, limits: Limits) -> Judgement:
    """Return the judgement of a row after a look at its absolute time, with a note on what was compared."""
    count = _counts(rows)
    totals = [median(row.total_ns if row else 0 for row in side) for side in (rows.base, rows.new)]
    ratio = change = judgement.ratio or 1.0
    if judgement.outcome == "cannot tell":  # the most that it could be
        change = max(judgement.low or 1.0, judgement.high or 1.0, key=lambda end: abs(end - 1))
    # With other counts the total differs as well. At stake is the change of one, for the more of them.
    stake_ns = abs(change - 1) * max(totals[0], totals[1] / ratio)
    if judgement.outcome != "same" and stake_ns < limits.min_time_ns:
        why = f"differs by under {duration(limits.min_time_ns)} a run"
        return replace(judgement, outcome="not judged", more_runs=None, why=why, is_small=True)
    notes = [judgement.why]
    if count[0] != count[1] and rows.key.group in _ONE_OF:
        notes.append(f"time of one; {count[0]:g} / {count[1]:g} {_ONE_OF[rows.key.group]}")
    if rows.base_key:
        notes.append(f"base: {rows.base_key.detail or rows.base_key.name}")
    if rows.all_first and rows.key.group == "kernel":
        notes.append("first launches alone")
    if rows.is_merged:
        notes.append("modes differ between runs: taken together")
    return replace(judgement, why="; ".join(filter(None, notes)))
