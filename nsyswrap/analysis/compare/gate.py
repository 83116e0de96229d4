"""Decide from a comparison if a change may pass: which of the chosen rows became slower."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal

from nsyswrap.analysis.compare.compare import few_runs
from nsyswrap.analysis.compare.judgement import (
    NO_COST,
    Bounds,
    SideClocks,
    bounds,
    clocks_of,
    is_small,
    judged_ns,
    ratio_of,
    typical_change,
    unjudged,
    why_not_judged,
)
from nsyswrap.analysis.compare.model import (
    COSTED,
    Comparison,
    Group,
    Judgement,
    Key,
    Pair,
    Side,
    SlowdownLimits,
)
from nsyswrap.analysis.compare.step_rows import PROGRAM, QUEUE, SPAN
from nsyswrap.analysis.finding import Note
from nsyswrap.analysis.kernel_names.classes import parse
from nsyswrap.analysis.kernel_names.readable import readable
from nsyswrap.base.records import dataclass

Metric = Literal["total", "step", "launch_overhead", "kernels"]
Verdict = Literal["passed", "slower", "cannot tell"]

METRICS: dict[Metric, Group] = {
    "total": "total",
    "step": "step",
    "launch_overhead": "launch",
    "kernels": "kernel",
}


LEVEL = 0.01  # of all rows together: how often the gate may be wrong on either side
MOST_COVERED = 0.9  # of a side's time, from which on its rows speak for it
WITH_WARM_UP = "with warm-up"  # detail of the row of all steps
_FEWEST_APART = 4  # runs a side that can lie apart
_ORDERS = 70  # of the runs of both sides, one of which parts them: 4 and 4 runs have as many


@dataclass(frozen=True)
class GateLimits:
    """What a gate looks at, and what it lets pass.

    ``metrics``: empty for the kernels alone if ``kernels`` has patterns, else for the steps, or for the
    totals of a program without steps. ``kernels``: shell patterns of full names, empty for all kernels.
    ``is_strict``: a gate that cannot tell does not pass.
    """

    max_slower: float = 0.05
    min_time_ns: float = 10_000.0
    kernels: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    is_strict: bool = False

    @property
    def limits(self) -> SlowdownLimits:
        """The limits of the comparison."""
        return SlowdownLimits(self.max_slower, self.min_time_ns)


@dataclass(frozen=True)
class GateResult:
    """The checked rows with what the gate concludes from each, each group by what it costs.

    The outcome of a row is ``slower``, ``same`` (not slower), ``cannot tell`` or ``not judged``; its ratio
    and bounds are those of the mean. ``coverage``: the share of each side's time that the rows of the chosen
    ``groups`` cover; ``of_run``: that from the first to the last GPU operation. ``is_open``: it is below
    MOST_COVERED, or what they do not cover grew by more than the tolerance, so totals are among the rows.
    ``no_verdicts`` says why no row was judged. ``caution``: what few runs cannot exclude.
    """

    checked: tuple[Pair, ...]
    groups: tuple[Group, ...]
    no_verdicts: Note | None = None
    caution: tuple[Note, ...] = ()
    coverage: tuple[float, float] = (1.0, 1.0)
    of_run: bool = True
    is_open: bool = False

    @property
    def failed(self) -> tuple[Pair, ...]:
        """The rows that became slower."""
        return self._of("slower")

    @property
    def undecided(self) -> tuple[Pair, ...]:
        """The rows that can be slower as well as not."""
        return self._of("cannot tell")

    @property
    def absent(self) -> tuple[Pair, ...]:
        """The rows that could not be compared, as one side or some of its runs lack them."""
        return tuple(pair for pair in self._of("not judged") if not pair.judgement.is_small)

    @property
    def is_covered(self) -> bool:
        """True if the rows cover most of both sides' time, or totals were compared."""
        return not self.is_open or any(pair.key.group == "total" for pair in self._of("same"))

    @property
    def verdict(self) -> Verdict:
        """``slower`` if a row failed; ``passed`` if all rows are the same and cover both sides."""
        if self.failed:
            return "slower"
        is_compared = len(self.absent) < len(self.checked)
        is_open = self.no_verdicts or self.undecided or not self.is_covered
        return "passed" if is_compared and not is_open else "cannot tell"

    def _of(self, outcome: str) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.checked if pair.judgement.outcome == outcome)


def chosen_groups(limits: GateLimits, base: Side, new: Side) -> tuple[Group, ...]:
    """Return the groups of rows that the gate looks at."""
    if limits.metrics:
        kernels: tuple[Metric, ...] = ("kernels",) if limits.kernels else ()
        return tuple(dict.fromkeys(METRICS[metric] for metric in (*limits.metrics, *kernels)))
    if limits.kernels:
        return ("kernel",)
    has_steps = all(any(key.group == "step" for run in side.runs for key in run.rows) for side in (base, new))
    return ("step",) if has_steps else ("total",)


def is_chosen(limits: GateLimits, groups: Iterable[Group]) -> Callable[[Key], bool]:
    """Return a function that is True for a row that the gate looks at.

    Queue time is none, because a full queue costs nothing. The time of the program is none, because its
    start varies more than what runs on the GPU.
    """
    wanted = set(groups)
    left_out = {("launch", QUEUE), ("total", PROGRAM)}

    def chosen(key: Key) -> bool:
        if key.group not in wanted or (key.group, key.name) in left_out:
            return False
        if key.group != "kernel" or not limits.kernels:
            return True
        return any(matches(key.name, pattern) for pattern in limits.kernels)

    return chosen


def matches(name: str, pattern: str) -> bool:
    """Return True if a pattern is for this kernel: for its full name, its readable one, or its function's."""
    function = parse(name)
    return any(fnmatchcase(form, pattern) for form in (name, readable(name), function.path, function.base))


def gate(comparison: Comparison, limits: GateLimits) -> GateResult:
    """Return what a gate concludes from the rows of a comparison that its limits choose."""
    groups = chosen_groups(limits, comparison.base, comparison.new)
    chosen = is_chosen(limits, groups)
    pairs = [
        pair
        for pair in comparison.pairs
        if chosen(pair.key) or (pair.renamed_from and chosen(pair.renamed_from))
    ]
    if comparison.no_verdicts:
        return GateResult(tuple(pairs), groups, comparison.no_verdicts)
    pairs = [*pairs, *filter(None, map(_with_warm_up, pairs))]
    *coverage, growth = _coverage(comparison, pairs, limits, groups)
    is_open = min(coverage) < MOST_COVERED or growth > limits.max_slower
    if is_open and "total" not in groups:
        pairs += [pair for pair in comparison.of("total") if pair.key.name != PROGRAM]
    caution = few_runs(comparison.base, comparison.new)
    of_run = "step" in groups or ("kernel" in groups and not limits.kernels)
    judged = tuple(_judged(comparison, pairs, limits))
    return GateResult(judged, groups, None, caution, (coverage[0], coverage[1]), of_run, is_open)


def _coverage(
    comparison: Comparison, pairs: Sequence[Pair], limits: GateLimits, groups: Sequence[Group]
) -> tuple[float, float, float]:
    """Return the share of the time of each side that compared rows cover, the least of the groups.

    The last is by which share of a step of the base, or a run, grew what they do not cover.

    Steps and kernels have to cover the time from the first to the last GPU operation, chosen kernels and
    launches their own.
    """
    span = next((pair for pair in comparison.of("total") if pair.key.name == SPAN), None)
    wholes = {"step": span, "kernel": None if limits.kernels else span}
    steps = _steps(comparison)
    shares, longer = [(1.0, 1.0, 0.0)], {pair.key.name for pair in pairs if pair.key.detail == WITH_WARM_UP}
    for group in set(groups) - {"total"}:
        mine = [pair for pair in pairs if pair.key.group == group]
        mine = [pair for pair in mine if pair.key.detail == WITH_WARM_UP or pair.key.name not in longer]
        compared = [_compared_ns(pair, steps, limits) for pair in mine]
        whole = wholes.get(group)
        base = max(sum(pair.base_total_ns for pair in mine), whole.base_total_ns if whole else 0.0)
        new = max(sum(pair.new_total_ns for pair in mine), whole.new_total_ns if whole else 0.0)
        both = sum(one[0] for one in compared), sum(one[1] for one in compared)
        grown = (new - both[1]) * steps[0] / steps[1] - (base - both[0])
        if base and new:
            shares.append((both[0] / base, both[1] / new, grown / base))
    return min(one[0] for one in shares), min(one[1] for one in shares), max(one[2] for one in shares)


def _with_warm_up(pair: Pair) -> Pair | None:
    """Return the row of all steps, warm-up included; None if no run has any, or for another row."""
    if not any(row and row.aside and row.aside.warm_up for row in (*pair.base, *pair.new)):
        return None
    base, new = (tuple(row and row.with_warm_up for row in side) for side in (pair.base, pair.new))
    return replace(pair, key=pair.key._replace(detail=WITH_WARM_UP), base=base, new=new)


def _compared_ns(pair: Pair, steps: tuple[float, float], limits: GateLimits) -> tuple[float, float]:
    """Return the time of a row on both sides that is compared: of more launches in a step, not all is."""
    is_compared = not why_not_judged(pair, limits.limits) or _is_small(pair, limits)
    if not is_compared or not pair.base_count or not pair.new_count:
        return 0.0, 0.0
    more = pair.new_count / steps[1] / (pair.base_count / steps[0]) if pair.key.group == "kernel" else 1.0
    return pair.base_total_ns * min(more, 1.0), pair.new_total_ns * min(1 / more, 1.0)


def _is_small(pair: Pair, limits: GateLimits) -> bool:
    return pair.in_both and is_small(pair, limits.limits)


def _steps(comparison: Comparison) -> tuple[float, float]:
    """Return the number of steps of a run of each side; 1 where the sides have not the same steps."""
    steps = [pair for pair in comparison.of("step") if all((*pair.base, *pair.new))]
    counts = [(pair.base_count, pair.new_count) for pair in steps if pair.base_count and pair.new_count]
    return max(counts, default=(1.0, 1.0))


def _judged(comparison: Comparison, pairs: Sequence[Pair], limits: GateLimits) -> list[Pair]:
    """Return the rows with what the gate concludes; they share the level, and all rows show the noise."""
    every = (*comparison.pairs, *pairs)
    reasons = {pair.key: why_not_judged(pair, limits.limits) for pair in every}
    mine = [_by_step(pair, _steps(comparison)) for pair in pairs if not reasons[pair.key]]
    keys = {pair.key for pair in mine}
    others = [pair for pair in comparison.pairs if not reasons[pair.key] and pair.key not in keys]
    clocks = SideClocks.of(comparison.base, comparison.new)
    found = {
        pair.key: _outcome(pair, one, clocks_of(pair, clocks), limits, len(mine))
        for pair, one in zip(mine, bounds(mine, others, LEVEL, limits.limits), strict=True)
    }
    return [
        replace(
            pair,
            judgement=found.get(pair.key)
            or replace(unjudged(pair, reasons[pair.key]), is_small=_is_small(pair, limits)),
        )
        for pair in pairs
    ]


def _by_step(pair: Pair, steps: tuple[float, float]) -> Pair:
    """Return a row of totals by step where the sides have another number of steps; other rows as they are."""
    if pair.key.group != "total" or steps[0] == steps[1]:
        return pair
    base, new = (
        tuple(
            row and replace(row, total_ns=row.total_ns / number, typical_ns=row.total_ns / number)
            for row in side
        )
        for side, number in zip((pair.base, pair.new), steps, strict=True)
    )
    return replace(pair, base=base, new=new)


def _outcome(pair: Pair, bounds: Bounds, clocks: SideClocks, limits: GateLimits, rows: int) -> Judgement:
    """Return what the gate concludes from a row, one of so many that share the level."""
    tolerance, slowdown = math.log1p(limits.max_slower), max(clocks.slowdown, 0.0)
    (change, low, high), (typical, _, typical_high) = bounds.mean, bounds.typical
    judged = Judgement(
        "cannot tell", ratio_of(change), ratio_of(low), ratio_of(high), typical=ratio_of(typical)
    )
    apart, highest = _separation(pair, rows), max(high, typical_high)
    if change > tolerance and (low > 0 or apart > tolerance):
        if _stake_ns(pair, change, change) < limits.min_time_ns:
            return replace(judged, outcome="same", is_small=True)
        if change - slowdown > tolerance and (low > slowdown or apart > tolerance + slowdown):
            return replace(judged, outcome="slower")
        return replace(judged, why=(clocks.note("clock_cause"),))
    if pair.key.group in COSTED and not pair.has_cost:
        return replace(judged, why=(NO_COST,))
    if highest <= tolerance or _stake_ns(pair, highest, change) < limits.min_time_ns:
        return replace(judged, outcome="same", is_small=highest > tolerance)
    why = () if high > tolerance else (typical_change(judged.typical),)
    return replace(judged, more_runs=bounds.more_runs or None, why=why)


def _separation(pair: Pair, rows: int) -> float:
    """Return the log of the fastest new run by the slowest of the base; -inf if chance could part the sides.

    Of all orders of the runs, few enough have to part them, for as many rows.
    """
    values = [[judged_ns(pair, row) for row in side if row] for side in (pair.base, pair.new)]
    base, new = ([value for value in side if value] for side in values)
    orders = math.comb(len(base) + len(new), len(base))
    if min(len(base), len(new)) < _FEWEST_APART or orders < _ORDERS * rows:
        return -math.inf
    return math.log(min(new) / max(base))


def _stake_ns(pair: Pair, change: float, mean: float) -> float:
    """Return the time of a run that a change of one costs; both are logs, ``mean`` that of the row's mean."""
    return abs(ratio_of(change) - 1) * max(pair.base_total_ns, pair.new_total_ns / ratio_of(mean))


def unmatched(result: GateResult, limits: GateLimits) -> tuple[str, ...]:
    """Return the patterns that no kernel of either side matches."""
    keys = [key for pair in result.checked for key in (pair.key, pair.renamed_from) if key]
    names = {key.name for key in keys if key.group == "kernel"}
    return tuple(pattern for pattern in limits.kernels if not any(matches(name, pattern) for name in names))
