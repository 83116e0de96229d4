"""What a bench found: costs, the ratios that matter, and whether they reach their goals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from contenders import (
    COMPARE,
    COMPARE_RANGES,
    HELP,
    IMPORT_CLICK,
    IMPORT_PANDAS,
    NSYS,
    NSYS_AI,
    OURS,
    OURS_ALONE,
    PANDAS,
    REPORT,
    SCREEN,
)
from measure import middle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from measure import Cost

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


def ratios(on_exports: Sequence[Bench], start: Bench) -> list[Ratio]:
    """Return those on each export, from each export to the next, and of the short commands."""
    found = [ratio for bench in on_exports for ratio in _on_one(bench)]
    found += [_growth(*pair) for pair in pairwise(on_exports)]
    screen, usage = _time(start, SCREEN, IMPORT_PANDAS), _time(start, HELP, IMPORT_CLICK)
    return [
        *found,
        Ratio("default screen of a small capture / import pandas, time", screen, at_most=1),
        Ratio("nsyswrap --help / import click, time", usage, at_most=1.5),
    ]


def _on_one(bench: Bench) -> Iterator[Ratio]:
    many = bench.kernels >= 10**7
    speed = 25 if many else 15 if bench.kernels >= 10**6 else None
    at = f"{bench.kernels:,} kernels"
    yield Ratio(f"{NSYS} / {OURS}, time, {at}", _time(bench, NSYS, OURS), at_least=speed)
    memory = _memory(bench, OURS, NSYS)
    yield Ratio(f"{OURS} / {NSYS}, memory, {at}", memory, at_most=0.5 if many else None)
    for compared in (COMPARE, COMPARE_RANGES):
        if compared in bench.costs:
            yield Ratio(f"{compared} / {REPORT}, time, {at}", _time(bench, compared, REPORT), at_most=3)
            yield Ratio(f"{compared} / {REPORT}, memory, {at}", _memory(bench, compared, REPORT), at_most=2)
    for other in (PANDAS, NSYS_AI):
        if other in bench.costs:
            yield Ratio(f"{other} / {OURS_ALONE}, time, {at}", _time(bench, other, OURS_ALONE))


def _growth(small: Bench, large: Bench) -> Ratio:
    more = large.kernels / small.kernels
    grown = middle(large.costs[OURS]).wall_s / middle(small.costs[OURS]).wall_s
    return Ratio(f"{OURS}, time, {small.kernels:,} to {large.kernels:,} kernels", grown, at_most=more)


def _time(bench: Bench, one: str, other: str) -> float:
    return middle(bench.costs[one]).wall_s / middle(bench.costs[other]).wall_s


def _memory(bench: Bench, one: str, other: str) -> float:
    return middle(bench.costs[one]).peak_bytes / middle(bench.costs[other]).peak_bytes


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
    yield ["", "time", "memory"] if memory else ["", "time"]
    for name, costs in bench.costs.items():
        cost = middle(costs)
        row = [name, f"{cost.wall_s:.3f} s", f"{cost.peak_bytes / 1e6:,.0f} MB"]
        yield row if memory else row[:2]


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
