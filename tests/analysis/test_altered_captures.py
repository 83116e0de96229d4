"""Steps and budgets of copies with other names, and with all times scaled."""

from pathlib import Path

import pytest
import recorded
from altered import renamed, scaled
from report_tables import records_of
from sampled import sampled

from nsyswrap.analysis.steps import steps_of
from nsyswrap.api import CaptureReader, open_capture

WITHOUT_GPU_WORK = ("nvtx/host", "hybrid/threads")
CAPTURES = sorted({*recorded.capture_names()} - {*WITHOUT_GPU_WORK})
every_capture = sampled("name", CAPTURES, fast=recorded.DOZEN)


def steps(capture: CaptureReader) -> list[tuple[int, list[bool], list[bool], bool]]:
    """Return what steps are without names and times."""
    return [
        (one.warm_up, one.steady.tolist(), one.outlier.tolist(), one.has_steady) for one in steps_of(capture)
    ]


def rows(capture: CaptureReader, factor: int = 1) -> list[dict[str, object]]:
    """Return the budgets, times multiplied, without the classes of kernels."""
    return [
        {
            name: value * factor if name.endswith("_ns") and value is not None else value
            for name, value in row.items()
            if "_kernel" not in name
        }
        for row in records_of(capture.report("step_budget"))
    ]


@every_capture
def test_other_names(name: str, tmp_path: Path) -> None:
    capture = open_capture(recorded.run_folder(name, tmp_path))
    if any(of_one.label == "optimizer step" for of_one in steps_of(capture)):
        pytest.skip("kernels of an optimizer are known by their names")
    other = open_capture(renamed(capture.path, tmp_path / "renamed.sqlite"))
    assert steps(other) == steps(capture)
    assert rows(other) == rows(capture)


@sampled(("name", "factor"), [(name, (2, 10)[i % 2]) for i, name in enumerate(CAPTURES)], fast=12)
def test_longer_times(name: str, factor: int, tmp_path: Path) -> None:
    capture = open_capture(recorded.run_folder(name, tmp_path))
    other = open_capture(scaled(capture.path, tmp_path / "longer.sqlite", factor))
    assert steps(other) == steps(capture)
    assert rows(other) == rows(capture, factor)


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES[::3])
def test_shorter_times(name: str, tmp_path: Path) -> None:
    capture = open_capture(recorded.run_folder(name, tmp_path))
    shorter = open_capture(scaled(capture.path, tmp_path / "shorter.sqlite", 0.1))
    assert steps(shorter) == steps(capture)
    # Times are whole ns, so the shorter ones have lost a digit.
    longer = open_capture(scaled(shorter.path, tmp_path / "longer.sqlite", 10))
    assert rows(longer) == rows(shorter, 10)
