"""The operations of the median step, how two such steps are aligned, and how the page shows them."""

from pathlib import Path

import numpy as np
import pytest
from step_drawings import Drawing, every
from tiny_export import Row, call, kernel, memcpy, opened

from nsyswrap.analysis.compare import median_step as steps
from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.model import RunFigures, Side
from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.render.page.compare import compare_page

STEP = 1_000_000


def program(names: dict[str, int], count: int = 6) -> list[Row]:
    """Return steps that launch kernels of these durations, and copy once; a call before each."""
    rows, number = [], 0
    for step in range(count):
        at = step * STEP
        for name, length in names.items():
            number += 1
            rows += [call("cudaLaunchKernel", at, at + 1_000, number)]
            rows += [kernel(name, at + 5_000, at + 5_000 + length, number)]
            at += 100_000
        number += 1
        rows += [
            call("cudaMemcpyAsync", at, at + 1_000, number),
            memcpy(1, at + 5_000, at + 7_000, 64, correlationId=number),
        ]
    return rows


def test_it_has_them_where_the_host_runs_ahead_of_the_gpu(tmp_path: Path) -> None:
    drawing = Drawing()
    for number, start in enumerate(every(20, length=100)):
        drawing.range("step", start, start + 90)
        drawing.queue(f"k{number}", start + 10, (5_000 + number * 1_000, 5_900 + number * 1_000))
    step = run_figures(opened(tmp_path, *drawing.rows), "run").median_step
    assert step is not None
    assert step.names == (f"k{step.number}",)


def run_of(folder: Path, names: dict[str, int]) -> RunFigures:
    folder.mkdir()
    return run_figures(opened(folder, *program(names)), folder.name)


def step_of(*names: str) -> steps.MedianStep:
    times = np.arange(len(names))
    return steps.MedianStep(0, 1, names, (("kernel", "other"),) * len(names), times * 0, times, times + 1)


def test_the_median_step_has_the_operations_that_were_launched_in_it(tmp_path: Path) -> None:
    step = run_of(tmp_path / "a", {"x": 20_000, "gemm": 50_000}).median_step
    assert step is not None
    assert step.names == ("x", "gemm", "[CUDA memcpy Host-to-Device]")
    assert step.kinds == (("kernel", "other"), ("kernel", "gemm"), ("memcpy", "Host-to-Device"))
    assert step.duration_ns == STEP
    assert step.start_ns.tolist() == [0, 100_000, 200_000]
    assert step.length_ns.tolist() == [20_000, 50_000, 2_000]


@pytest.mark.parametrize("most", [1_200, 1])
def test_what_is_alike_is_aligned_and_the_rest_stands_alone(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "_MOST_COMPARED", most)
    base, new = step_of("a", "b", "b", "c", "z"), step_of("a", "b", "d", "b", "z")
    pairs = steps.aligned(base, new)
    assert sorted(pair for pair in pairs if None not in pair) == [(0, 0), (1, 1), (2, 3), (4, 4)]
    assert [pair for pair in pairs if pair[1] is None] == [(3, None)]
    assert [pair for pair in pairs if pair[0] is None] == [(None, 2)]
    assert steps.aligned(base, base) == [(i, i) for i in range(5)]


def test_the_page_marks_what_differs(tmp_path: Path) -> None:
    base = run_of(tmp_path / "a", {"x": 20_000, "gemm": 50_000, "gone": 3_000})
    new = run_of(tmp_path / "b", {"x": 20_500, "gemm": 70_000, "more": 9_000})
    page = compare_page(compare(Side("a", (base,)), Side("b", (new,))))
    assert "Of 5 operations: 1 longer in new, 2 on one side." in page
    assert "Base: step" in page
    start = page.index('<table data-report="median_steps">')
    assert page[start : page.index("</table>", start)].count("<tr>") == 1 + 5
    without = compare_page(compare(Side("a", (base,)), Side("b", (replaced(new),))))
    assert "Not drawn: a side has no capture with steady steps" in without


def replaced(run: RunFigures) -> RunFigures:
    return type(run)(run.label, run.setup, run.rows, run.steps, run.left_out)
