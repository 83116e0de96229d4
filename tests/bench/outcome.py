"""What a bench found: costs, the ratios that matter, and whether they reach their goals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from contenders import OURS, REPORT
from goals import SCREEN_GROWTH, Goal, goals
from measure import Cost, middle

if TYPE_CHECKING:
    Costs = dict[str, list[Cost]]


@dataclass(frozen=True)
class Bench:
    """What was run on one export, or without one: costs by what was run, in the order of the rounds."""

    title: str
    kernels: int
    costs: Costs


@dataclass(frozen=True)
class Ratio:
    """What was measured, and how it should be: ``at_least`` or ``at_most``; neither: no goal."""

    what: str
    measured: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def goal(self) -> str:
        """The goal as one reads it."""
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return "" if self.at_most is None else f"<= {self.at_most:g}"

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        if self.at_least is not None:
            return self.measured >= self.at_least
        return None if self.at_most is None else self.measured <= self.at_most


def ratios(benches: Sequence[Bench]) -> list[Ratio]:
    """Return those on each export, then from each export to the next; the short commands come last."""
    found = {bench.kernels: list(_on_one(bench)) for bench in benches if bench.kernels}
    short = [ratio for bench in benches if not bench.kernels for ratio in _on_one(bench)]
    summarized = [bench for bench in benches if bench.kernels and OURS in bench.costs]
    growth = [ratio for pair in pairwise(summarized) for ratio in _growth(*pair)]
    return [*(ratio for on_export in found.values() for ratio in on_export), *growth, *short]


def _on_one(bench: Bench) -> Iterator[Ratio]:
    """Yield what can be said of those that were run."""
    at = f", {bench.kernels:,} kernels" if bench.kernels else ""
    for goal in goals(bench.kernels):
        if goal.one in bench.costs and (not goal.other or goal.other in bench.costs):
            bounds = (goal.at_least, goal.at_most) if bench.kernels >= goal.kernels else (None, None)
            yield Ratio(f"{_what(goal)}{at}", _measured(goal, bench), *bounds)


def _what(goal: Goal) -> str:
    if not goal.other:
        return f"{goal.one}, memory in MB"
    sign = "-" if goal.more_s else "/"
    quantity = "memory" if goal.memory else "seconds" if goal.more_s else "CPU" if goal.cpu else "time"
    return f"{goal.one} {sign} {goal.other}, {quantity}"


def _measured(goal: Goal, bench: Bench) -> float:
    one = middle(bench.costs[goal.one])
    if not goal.other:
        return one.peak_bytes / 1e6
    other = middle(bench.costs[goal.other])
    if goal.more_s:
        return one.wall_s - other.wall_s
    if goal.memory:
        return one.peak_bytes / other.peak_bytes
    return one.cpu_s / other.cpu_s if goal.cpu else one.wall_s / other.wall_s


def _growth(small: Bench, large: Bench) -> Iterator[Ratio]:
    more = large.kernels / small.kernels
    sizes = f"{small.kernels:,} to {large.kernels:,} kernels"
    one, other = (middle(bench.costs[OURS]) for bench in (small, large))
    yield Ratio(f"{OURS}, time, {sizes}", other.wall_s / one.wall_s, at_most=more)
    if REPORT in small.costs and REPORT in large.costs:
        one, other = (middle(bench.costs[REPORT]) for bench in (small, large))
        yield Ratio(f"{REPORT}, CPU, {sizes}", other.cpu_s / one.cpu_s, at_most=SCREEN_GROWTH * more)


def as_text(benches: Sequence[Bench], found: Sequence[Ratio]) -> str:
    """Return a table of medians for each bench, and one of the ratios."""
    parts = [f"{bench.title}\n{_aligned(_medians(bench))}" for bench in benches]
    verdicts = {True: "yes", False: "no", None: ""}
    goals = [[ratio.what, f"{ratio.measured:.2f}", ratio.goal, verdicts[ratio.reached]] for ratio in found]
    parts.append(_aligned([["", "measured", "goal", "reached"], *goals]))
    return "\n\n".join(parts)


def _medians(bench: Bench) -> Iterator[list[str]]:
    """Yield a header, and a row of what was run; the short commands' memory is that of whoever measures."""
    memory = bench.kernels > 0
    yield ["", "time", "CPU", "memory", "written"] if memory else ["", "time", "CPU"]
    for name, costs in bench.costs.items():
        cost = middle(costs)
        row = [name, f"{cost.wall_s:.3f} s", f"{cost.cpu_s:.3f} s", f"{cost.peak_bytes / 1e6:,.0f} MB"]
        row.append(f"{cost.written_bytes / 1e6:,.1f} MB")
        yield row if memory else row[:3]


def as_json(benches: Sequence[Bench], found: Sequence[Ratio], **about: object) -> dict[str, object]:
    """Return all that was measured; times in seconds, memory in bytes."""
    goals = [{**asdict(ratio), "goal": ratio.goal, "reached": ratio.reached} for ratio in found]
    return {**about, "measured": [asdict(bench) for bench in benches], "ratios": goals}


def _aligned(lines: Iterable[Sequence[str]]) -> str:
    """The first column to the left, all others to the right."""
    rows = list(lines)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    )
