"""The spread of the figures of equal runs, and the cost of profiling, worked out on paper."""

from pathlib import Path
from typing import Any

import pytest
from tiny_export import call, kernel, nvtx, opened

from nsyswrap.base.units import Unit
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.runs.tables import PROGRAM_TIME, Cost, RunsFigure, profiling_cost, spread

STEPS = 6


def capture(folder: Path, pace: int = 100) -> Capture:
    """Six steps, one each ``pace``; each has a launch call of 10 and a kernel of 40."""
    folder.mkdir()
    rows = [
        row
        for n in range(STEPS)
        for row in (
            nvtx("step", n * pace, n * pace + 60),
            call("cudaLaunchKernel", n * pace + 5, n * pace + 15, n + 1),
            kernel("k", n * pace + 20, n * pace + 60, n + 1),
        )
    ]
    return opened(folder, *rows)


def run(program_s: float | None, /, **bare: Any) -> dict[str, Any]:
    return {"program_s": program_s, "bare": {"exit_code": 0, "program_s": 1.0, **bare}}


def test_the_figures_of_three_runs(tmp_path: Path) -> None:
    """Launch calls take 6 x 10, kernels 6 x 40, whatever the pace.

    The first step is warm-up. The last one ends with its kernel: at a pace of 80 the five last 4 x 80 + 60.
    """
    captures = [capture(tmp_path / str(pace), pace) for pace in (100, 80, 125)]
    figures = {
        figure.name: figure for figure in spread(captures, [{"program_s": s} for s in (2.0, 4.0, 3.0)])
    }
    assert figures[PROGRAM_TIME].values == [2e9, 4e9, 3e9]
    assert figures[PROGRAM_TIME].median == 3e9
    assert figures[PROGRAM_TIME].spread_percent == pytest.approx(200 / 3)
    assert figures["step 'step'"].values == [100, 80, 125]
    busy = figures["GPU busy, steady part"]
    assert busy.unit is Unit.PERCENT
    assert busy.values[1] == pytest.approx(100 * 200 / 380)
    assert figures["GPU busy time"].values == figures["kernel time"].values == [240, 240, 240]
    assert figures["kernel time"].spread_percent == 0
    assert figures["launch calls"].values == [60, 60, 60]


def test_a_figure_that_one_run_lacks(tmp_path: Path) -> None:
    """The second run has no GPU work: the figures are of one run, and no run has a time of 0."""
    (tmp_path / "empty").mkdir()
    captures = [capture(tmp_path / "a"), opened(tmp_path / "empty", nvtx("step", 0, 10))]
    figures = {figure.name: figure for figure in spread(captures, [{"program_s": 1.0}, {"program_s": None}])}
    assert {name: len(figure.values) for name, figure in figures.items()} == dict.fromkeys(figures, 1)
    assert figures[PROGRAM_TIME].spread_percent is None


@pytest.mark.parametrize(
    ("values", "slow"),
    [
        ([120, 100, 101, 102, 103], True),
        ([105, 100, 101, 102, 103], False),  # the others differ by 3, too
        ([103, 100, 120, 101, 102], False),
        ([101, 100, 100, 100, 100], False),  # by less than 2 %
        ([120, 100, 101, 102], False),  # too few
    ],
)
def test_a_slow_first_run(values: list[float], slow: bool) -> None:  # noqa: FBT001 - of parametrize
    assert RunsFigure(PROGRAM_TIME, Unit.NS, values).first_is_slow is slow


def test_the_cost_of_profiling() -> None:
    """1 s without nsys, 1.5 s under it."""
    cost, why_not = profiling_cost([run(1.5)])
    assert cost is not None
    assert why_not == ""
    assert (cost.bare.values, cost.profiled.values) == ((1e9,), (1.5e9,))
    assert (cost.difference_ns, cost.difference_percent) == (5e8, 50)


def test_pairs_are_compared_by_their_medians() -> None:
    runs = [run(under, program_s=bare) for under, bare in ((1.2, 1.0), (1.1, 1.15), (2.0, 1.05))]
    cost, _ = profiling_cost(runs)
    assert cost is not None
    assert cost.difference_ns == pytest.approx(1.5e8)  # 1.2 - 1.05
    assert cost.overlaps  # 1.1 under nsys, 1.15 without


@pytest.mark.parametrize(
    ("bare", "profiled", "overlaps"),
    [([1, 2], [3, 4], False), ([3, 4], [1, 2], False), ([1, 3], [2, 4], True), ([1, 2], [2, 3], True)],
)
def test_overlapping_ranges(bare: list[float], profiled: list[float], overlaps: bool) -> None:  # noqa: FBT001
    cost = Cost(RunsFigure("x", Unit.NS, bare), RunsFigure("x", Unit.NS, profiled))
    assert cost.overlaps is overlaps


@pytest.mark.parametrize(
    ("profiled", "why_not"),
    [
        (run(1.5, exit_code=3), "the run without nsys failed"),
        (run(1.5, program_s=None), "the program was not timed"),
        (run(None), "the program was not timed"),
    ],
)
def test_a_cost_that_is_not_known(profiled: dict[str, Any], why_not: str) -> None:
    assert profiling_cost([profiled]) == (None, why_not)
    assert profiling_cost([profiled, run(1.5)])[0] == profiling_cost([run(1.5)])[0]
