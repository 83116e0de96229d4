"""Compare equal runs of one program: the spread of the main figures, and the same runs without nsys."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from nsyswrap.analysis.step_times import step_times
from nsyswrap.base.bare_run import bare_run_of
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.units import NS_PER_S, Unit
from nsyswrap.reports.runs.digest import totals
from nsyswrap.reports.summary import answer_with_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nsyswrap.base.bare_run import BareRun
    from nsyswrap.capture.capture import Capture

PROGRAM_TIME = "program time"
_LEAST_RUNS, _LEAST_SLOW = 5, 0.02  # for a slow first run: number of runs, part of the median
_TOTALS = {"busy_ns": "GPU busy time", "kernel_ns": "kernel time", "launch_ns": "launch calls"}


@dataclass(frozen=True)
class Figure:
    """One figure of equal runs: the values of the runs that have it, in their order."""

    name: str
    unit: Unit
    values: Sequence[float]

    @property
    def median(self) -> float:
        """The median of the runs."""
        return median(self.values)

    @property
    def spread_percent(self) -> float | None:
        """(Largest - smallest) / median, as `collect` has it; None for a single run."""
        if len(self.values) <= 1 or not self.median:
            return None
        return 100 * (max(self.values) - min(self.values)) / self.median

    @property
    def first_is_slow(self) -> bool:
        """True if the first of at least five runs is slower than the others by more than their spread."""
        first, *others = self.values
        if len(self.values) < _LEAST_RUNS:
            return False
        return first - max(others) > max(max(others) - min(others), _LEAST_SLOW * median(others))


def spread(captures: Sequence[Capture], runs: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """Return the figures of equal runs, the program's time first. ``runs``: the run.json of each capture."""
    rows = [_figures(capture, run) for capture, run in zip(captures, runs, strict=True)]
    keys = dict.fromkeys(key for row in rows for key in row)
    return [Figure(*key, [row[key] for row in rows if key in row]) for key in keys]


def _figures(capture: Capture, run: Mapping[str, Any]) -> dict[tuple[str, Unit], float]:
    """Return the known figures of one run by name and unit."""
    figures: dict[tuple[str, Unit], float | None] = {(PROGRAM_TIME, Unit.NS): _ns(run.get("program_s"))}
    answer, _ = answer_with_lines(capture)
    if answer and answer.devices:
        if answer.steps:
            figures[f"step {answer.steps.label}", Unit.NS] = answer.steps.median_ns
        busy = sum(answer.busy_ns.values())
        figures[f"GPU busy, {answer.part}", Unit.PERCENT] = answer.share(busy)
        of_capture = totals(capture)
        figures |= {(name, Unit.NS): of_capture.get(key) for key, name in _TOTALS.items()}
    return {key: value for key, value in figures.items() if value is not None}


@dataclass(frozen=True)
class Cost:
    """One time of equal runs without nsys and under nsys, in ns: the values of each run."""

    name: str
    bare: Figure
    profiled: Figure

    @property
    def difference_ns(self) -> float:
        """The difference of the medians."""
        return self.profiled.median - self.bare.median

    @property
    def difference_percent(self) -> float:
        """The difference of the medians, as a share of the median without nsys."""
        return 100 * self.difference_ns / self.bare.median

    @property
    def overlaps(self) -> bool:
        """True if a profiled run took no longer than a run without nsys, or the other way round."""
        bare, profiled = self.bare.values, self.profiled.values
        return min(profiled) <= max(bare) and min(bare) <= max(profiled)


def profiling_costs(captures: Sequence[Capture], runs: Sequence[Mapping[str, Any]]) -> tuple[list[Cost], str]:
    """Return what profiling cost, by program and by step, and why one of these is not known.

    Only runs whose run without nsys ended well are compared.
    """
    pairs = [
        (capture, run, bare)
        for capture, run in zip(captures, runs, strict=True)
        if (bare := bare_run_of(run)) and not bare.exit_code
    ]
    if not pairs:
        return [], "the run without nsys failed"
    programs = [(_ns(bare.program_s), _ns(run.get("program_s"))) for _, run, bare in pairs]
    whole = _cost(PROGRAM_TIME, programs)
    try:
        steps = [_step_pair(capture, bare) for capture, _, bare in pairs]
    except NotInCapture as error:
        return whole, f"steps not compared: {error.message}"
    names = {name for name, _ in steps}
    if len(names) > 1:
        return whole, f"steps not compared: the runs differ: {', '.join(sorted(names))}"
    return [*whole, *_cost(names.pop(), [times for _, times in steps])], ""


def _step_pair(capture: Capture, bare: BareRun) -> tuple[str, tuple[float, float]]:
    """Return the name of the step, and its time without nsys and under nsys. Raises NotInCapture."""
    if bare.no_ranges:
        raise NotInCapture(bare.no_ranges)
    steps = step_times(capture)
    if steps is None:
        raise NotInCapture("no repeated NVTX range marks them")
    times = bare.ranges.get(steps.name)
    if times is None:
        raise NotInCapture(f"'{steps.name}' was not timed without nsys; possibly the program ends by _exit")
    if times.count != steps.count:
        counts = f"{times.count:,} without nsys, {steps.count:,} recorded"
        raise NotInCapture(f"the counts of '{steps.name}' differ: {counts}")
    return f"step '{steps.name}', {steps.count:,} x", (times.median_ns, steps.median_ns)


def _cost(name: str, pairs: Sequence[tuple[float | None, float | None]]) -> list[Cost]:
    known = [(bare, profiled) for bare, profiled in pairs if bare and profiled]
    if not known:
        return []
    bare, profiled = (Figure(name, Unit.NS, values) for values in zip(*known, strict=True))
    return [Cost(name, bare, profiled)]


def _ns(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * NS_PER_S
