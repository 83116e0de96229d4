"""The time from the start of one step to the start of the next, worked out on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tiny_export import call, kernel, nvtx, opened

from nsyswrap.analysis.step_times import StepTimes, step_times
from nsyswrap.base.errors import NotInCapture

if TYPE_CHECKING:
    from pathlib import Path

    from tiny_export import Row


def step(start: int, correlation: int, name: str = "step") -> tuple[Row, ...]:
    return (
        nvtx(name, start, start + 50),
        call("cudaLaunchKernel", start + 5, start + 10, correlation),
        kernel("k", start + 20, start + 40, correlation),
    )


def test_the_median_is_from_start_to_start(tmp_path: Path) -> None:
    """Starts at 0, 100, 300 and 700; the first one counts, too."""
    starts = enumerate((0, 100, 300, 700), 1)
    capture = opened(tmp_path, *(row for number, start in starts for row in step(start, number)))
    assert step_times(capture) == StepTimes("step", 4, 200)


def test_no_range_marks_steps(tmp_path: Path) -> None:
    capture = opened(tmp_path, *step(0, 1, "a"), *step(100, 2, "b"), *step(200, 3, "c"))
    assert step_times(capture) is None


def test_no_gpu_work(tmp_path: Path) -> None:
    capture = opened(tmp_path, *(nvtx("step", n * 10, n * 10 + 5) for n in range(4)))
    with pytest.raises(NotInCapture, match="no GPU work with a CUDA call was recorded"):
        step_times(capture)
