"""Decide from a comparison if a change may pass: which of the chosen rows became slower."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from nsyswrap.analysis.compare.compare import few_runs
from nsyswrap.analysis.compare.model import Group, Limits
from nsyswrap.analysis.compare.step_rows import PROGRAM, QUEUE
from nsyswrap.analysis.kernel_names.demangled import parse
from nsyswrap.analysis.kernel_names.readable import readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nsyswrap.analysis.compare.model import Comparison, Judgement, Key, Pair, Side

Metric = Literal["total", "step", "launch_overhead", "kernels"]
Verdict = Literal["passed", "slower", "cannot tell"]

METRICS: dict[Metric, Group] = {
    "total": "total",
    "step": "step",
    "launch_overhead": "launch",
    "kernels": "kernel",
}


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
    def limits(self) -> Limits:
        """The limits of the comparison."""
        return Limits(self.max_slower, self.min_time_ns)


@dataclass(frozen=True)
class GateResult:
    """The chosen rows, each group by what it costs, and why no row was judged, if none was.

    ``failed`` became slower beyond tolerance, time at stake and noise. ``undecided`` could have: a row
    that is faster, the same or small is not. ``clock`` are slower because the clock was lower.
    ``absent`` are rows of one side alone. ``groups``: those chosen.
    ``caution``: what few runs cannot exclude.
    """

    checked: tuple[Pair, ...]
    groups: tuple[Group, ...]
    max_slower: float
    no_verdicts: str = ""
    caution: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[Pair, ...]:
        """The rows that became slower."""
        return self._of("slower")

    @property
    def undecided(self) -> tuple[Pair, ...]:
        """The rows of both sides that can be slower as well as not; all of them if no row was judged."""
        return tuple(
            pair
            for pair in self.checked
            if not (pair.is_added or pair.is_removed) and (self.no_verdicts or self._is_open(pair.judgement))
        )

    def _is_open(self, judgement: Judgement) -> bool:
        if judgement.outcome == "not judged":  # as a row that some runs lack
            return not judgement.is_small
        highest = 1 + self.max_slower
        return judgement.outcome == "cannot tell" and (judgement.high or highest + 1) > highest

    @property
    def clock(self) -> tuple[Pair, ...]:
        """The rows that took longer only because the clock was lower."""
        return tuple(pair for pair in self._of("clock") if (pair.judgement.ratio or 1) > 1)

    @property
    def absent(self) -> tuple[Pair, ...]:
        """The rows that one side lacks, which cannot be compared."""
        return tuple(pair for pair in self.checked if pair.is_added or pair.is_removed)

    @property
    def verdict(self) -> Verdict:
        """``slower`` if a row failed; else ``cannot tell`` if a row is undecided or none was compared."""
        if self.failed:
            return "slower"
        is_compared = len(self.absent) < len(self.checked)
        return "passed" if is_compared and not self.undecided and not self.no_verdicts else "cannot tell"

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
    """Return what a gate concludes from a comparison with its limits, of which only the chosen rows count."""
    groups = chosen_groups(limits, comparison.base, comparison.new)
    chosen = is_chosen(limits, groups)
    pairs = tuple(pair for pair in comparison.pairs if chosen(pair.key))
    caution = () if comparison.no_verdicts else few_runs(comparison.base, comparison.new)
    return GateResult(pairs, groups, limits.max_slower, comparison.no_verdicts, caution)


def unmatched(result: GateResult, limits: GateLimits) -> tuple[str, ...]:
    """Return the patterns that no kernel of either side matches."""
    names = {pair.key.name for pair in result.checked if pair.key.group == "kernel"}
    return tuple(pattern for pattern in limits.kernels if not any(matches(name, pattern) for name in names))
