"""A few of the runs that tests/support/endurance.py makes by the hundred, killed or repeated."""

import signal
from pathlib import Path

import pytest
from endurance import (
    AFTER,
    AGENT,
    ALL,
    IMPORTER,
    LAUNCHER,
    NSYS,
    NSYSWRAP,
    RUNNING,
    WITH_GUARD,
    Cell,
    Moment,
    cells,
    expected,
    killed,
    killed_in_the_end,
    moments,
    repeated,
)

# A share of the phase, and the cell. With these each promise of docs/guarantees.md is kept once.
KEPT = (
    (0.3, Cell(NSYSWRAP, signal.SIGKILL, AFTER)),  # nsys imports
    (0.5, Cell(NSYSWRAP, signal.SIGTERM, RUNNING)),
    (0.2, Cell(NSYSWRAP, signal.SIGINT, AFTER)),
    (0.5, Cell(NSYS, signal.SIGKILL, RUNNING)),
    (0.4, Cell(NSYS, signal.SIGTERM, AFTER)),
    (0.5, Cell(AGENT, signal.SIGKILL, RUNNING)),
    (0.5, Cell(LAUNCHER, signal.SIGKILL, RUNNING)),
    (0.0, Cell(IMPORTER, signal.SIGKILL, AFTER)),
    (0.5, Cell(WITH_GUARD, signal.SIGKILL, RUNNING)),
    (0.5, Cell(ALL, signal.SIGKILL, RUNNING)),
)


def test_each_cell_of_the_matrix_says_how_a_run_ends() -> None:
    assert all(expected(cell) for cell in cells())
    assert {moment.cell for moment in moments(0, len(cells()))} == set(cells())
    assert all(cell in cells() for _, cell in KEPT)


@pytest.mark.parametrize(("share", "cell"), KEPT, ids=str)
@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_a_kill_breaks_no_promise(
    tmp_path: Path, environment: dict[str, str], share: float, cell: Cell
) -> None:
    moment = Moment(0, cell, share, discard=False, stats=cell.victim == IMPORTER)
    assert killed(moment, tmp_path / "run", environment) == []


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_a_kill_after_the_status_leaves_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    assert killed_in_the_end(tmp_path / "run", environment) == []


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_a_run_leaves_nothing_behind(tmp_path: Path, environment: dict[str, str]) -> None:
    assert repeated(3, tmp_path, environment) == []
