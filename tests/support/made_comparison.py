"""Comparisons made of numbers, with the judgements that a test wants."""

from collections.abc import Sequence
from typing import Any

from made_runs import SETUP, exact_row

from nsyswrap.analysis.compare.model import (
    GROUPS,
    Comparison,
    Group,
    Judgement,
    Key,
    Outcome,
    Pair,
    RowFigures,
    RunFigures,
    Side,
)

RUNS, STEPS = 5, 20
SLOWER = Judgement("slower", 1.08, 1.071, 1.089)
SAME = Judgement("same", 1.0, 0.99, 1.01)
UNJUDGED = Judgement("not judged")


def pair(
    group: Group,
    name: str,
    base: float | RowFigures | None,
    new: float | RowFigures | None,
    judgement: Judgement = SAME,
    **more: Any,
) -> Pair:
    """Return a row of equal runs. A number is the typical time in ns of ``count`` of them, 20 steps a run."""
    count, runs, renamed = more.pop("count", STEPS), more.pop("runs", RUNS), more.pop("renamed_from", None)
    sides = [
        (row if row is None or isinstance(row, RowFigures) else exact_row(row, count, STEPS),) * runs
        for row in (base, new)
    ]
    return Pair(Key(group, name, **more), sides[0], sides[1], judgement, renamed)


def judged(outcome: Outcome, low: float, high: float, **more: Any) -> Judgement:
    """Return a judgement with the middle of its interval as ratio."""
    return Judgement(outcome, (low + high) / 2, low, high, **more)


def comparison(*pairs: Pair, runs: int = RUNS, **more: Any) -> Comparison:
    """Return a comparison of these rows, in its order."""
    order = list(GROUPS)
    ordered = sorted(pairs, key=lambda one: (order.index(one.key.group), -abs(one.cost_ns), one.key))
    return Comparison(_side("before", runs), _side("after", runs), tuple(ordered), **more)


def kernels(count: int, name: str = "void kernel_{}<float>(float*)") -> Sequence[Pair]:
    """Return rows of different kernels."""
    return [pair("kernel", name.format(n), 1000.0 + n, 1100.0 + n, SLOWER) for n in range(count)]


def _side(name: str, runs: int) -> Side:
    return Side(name, tuple(RunFigures(f"{name}-{n}", SETUP, {}, STEPS) for n in range(runs)))
