"""Points in time made of numbers: a side for each commit, in the order of days."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from made_runs import SETUP, made_side

from nsyswrap.analysis.compare.model import Setup, Side


def made_points(
    points: int,
    factors: Callable[[int], Mapping[str, float]] = lambda _: {},
    setup: Callable[[int], Setup] = lambda _: SETUP,
    seed: int = 0,
    **more: Any,
) -> list[Side]:
    """Return a side for each point; ``factors`` says by number which kernels are slower, ``setup`` where."""
    return [
        dated(made_side(f"p{i}", seed=1000 * seed + i, factors=factors(i), setup=setup(i), **more), i)
        for i in range(points)
    ]


def dated(side: Side, number: int) -> Side:
    """Return the side on its own day, with a commit of its own."""
    setups = (
        replace(run.setup, started=f"2026-11-{number + 1:02}T10:00:00", commit=f"c{number:06}")
        for run in side.runs
    )
    return replace(
        side, runs=tuple(replace(run, setup=setup) for run, setup in zip(side.runs, setups, strict=True))
    )
