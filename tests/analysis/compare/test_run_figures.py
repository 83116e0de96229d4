"""The figures of a run: those of nsys' own tables in recorded captures, and on paper in small ones."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from recorded import run_folder
from step_drawings import LENGTH, Drawing
from tiny_export import PID, call, graph, kernel, memcpy, memset, nvtx, opened, write
from tiny_export import Row as ExportRow

from nsyswrap.analysis.answer import answer_of
from nsyswrap.analysis.compare import rows as compare_rows
from nsyswrap.analysis.compare.model import WHOLE_RUN, Group, Key, RowFigures, RunFigures
from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.analysis.compare.step_rows import (
    BUSY,
    FIRST_CALL,
    KERNEL_TIME,
    LATENCY,
    PROGRAM,
    QUEUE,
    REPEAT_CALL,
)
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.run_folder import EXPORT, RUN
from nsyswrap.reports import find_report
from nsyswrap.reports.runs.digest import totals

Made = tuple["CaptureReader", "RunFigures"]


@pytest.fixture(
    scope="module", params=["ddp/even", "graphs/nodes", "graphs/graph", "copies/managed", "nvtx/kernels"]
)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Two ranks, graphs with and without nodes, unified memory, and ranges."""
    capture = open_capture(run_folder(request.param, tmp_path_factory.mktemp("recorded")))
    return capture, run_figures(capture)


def figures(folder: Path, *rows: ExportRow) -> RunFigures:
    return run_figures(opened(folder, *rows))


def of(made: RunFigures, group: Group) -> dict[str, RowFigures]:
    return {key.name: row for key, row in made.rows.items() if key.group == group}


def reported(capture: CaptureReader, name: str) -> list[dict[str, Any]]:
    table = find_report(name).make(capture)
    return [dict(zip((c.name for c in table.columns), row, strict=True)) for row in table.rows()]


class TestAsNsys:
    """Counts and totals of recorded captures."""

    def test_kernels(self, made: Made) -> None:
        capture, figures = made
        found: Counter[tuple[str, str, str]] = Counter()
        for key, row in figures.rows.items():
            if key.group == "kernel" and key.detail:  # all but whole graphs; modes are added up
                found[key.name, key.detail, "count"] += row.count
                found[key.name, key.detail, "total"] += int(row.total_ns)
                assert sum(count for _, count in row.durations) == row.count
        said: Counter[tuple[str, str, str]] = Counter()
        for line in reported(capture, "cuda_gpu_kern_gb_sum"):
            shape = " ".join(f"grid {line['grid_xyz']}, block {line['block_xyz']}".split())
            said[line["name"], shape, "count"] += line["instances"]
            said[line["name"], shape, "total"] += line["total_ns"]
        assert found == said

    def test_api_calls(self, made: Made) -> None:
        capture, figures = made
        said: dict[str, list[int]] = {}
        for row in reported(capture, "cuda_api_sum"):  # a name can have two rows
            count, total = said.get(row["name"], (0, 0))
            said[row["name"]] = [count + row["calls"], total + row["total_ns"]]
        assert {name: [row.count, row.total_ns] for name, row in of(figures, "api").items()} == said

    def test_copies(self, made: Made) -> None:
        capture, figures = made
        times, sizes = (
            {row["operation"]: row for row in reported(capture, f"cuda_gpu_mem_{kind}_sum")}
            for kind in ("time", "size")
        )
        copies = of(figures, "copy").items()
        found = {
            "[CUDA memset]" if name == "memset" else f"[CUDA memcpy {name}]": row for name, row in copies
        }
        assert found.keys() == times.keys()
        for name, row in found.items():
            assert (row.count, row.total_ns) == (times[name]["count"], times[name]["total_ns"])
            assert row.size_bytes == sizes[name]["total_bytes"]

    def test_launches(self, made: Made) -> None:
        capture, figures = made
        [every] = [row for row in reported(capture, "launch_overhead") if row["name"] == "[all launches]"]
        rows = of(figures, "launch")
        assert rows[FIRST_CALL].count == every["first_launches"]
        assert rows[FIRST_CALL].total_ns == every["first_api_ns"]
        assert (rows[REPEAT_CALL].count, rows[REPEAT_CALL].total_ns) == (
            every["repeat_launches"],
            every["api_total_ns"],
        )
        assert rows[LATENCY].count == every["uncontended"]
        assert rows[QUEUE].total_ns == every["queue_total_ns"]

    def test_totals(self, made: Made) -> None:
        capture, figures = made
        rows, said = of(figures, "total"), totals(capture)
        assert rows[KERNEL_TIME].total_ns == said["kernel_ns"]
        assert rows[BUSY].total_ns == said["busy_ns"]

    def test_steps_and_their_time_by_cause(self, made: Made) -> None:
        capture, figures = made
        answer = answer_of(capture)
        assert figures.steps == (answer.steps.count if answer.steps else 0)
        if answer.steps:
            row = of(figures, "step")[answer.steps.label]
            assert row.count == answer.steps.count
            assert row.aside is not None
            assert row.aside.outliers == len(answer.steps.outliers)
            assert row.aside.warm_up == answer.steps.warm_up
        budget = {
            key.name.removeprefix("idle_"): row.total_ns
            for key, row in figures.rows.items()
            if key.name.startswith("idle_") and key.detail == ("" if answer.steps else WHOLE_RUN)
        }
        assert budget == dict(answer.idle_ns)
        busy = {
            key.name: row.total_ns
            for key, row in figures.rows.items()
            if key.group == "budget"
            and not key.name.startswith("idle_")
            and key.detail == ("" if answer.steps else WHOLE_RUN)
        }
        assert busy == dict(answer.busy_ns)
        if answer.steps and len(judged_processes(capture)) == 1:
            per_step = sum(row.per_step_ns or 0 for key, row in figures.rows.items() if key.group == "budget")
            assert per_step * figures.steps == pytest.approx(answer.window_ns)

    def test_the_most_time_comes_first(self, made: Made) -> None:
        for group in ("kernel", "api", "copy", "range"):
            times = [row.total_ns for key, row in made[1].rows.items() if key.group == group]
            assert times == sorted(times, reverse=True)


def launched(*times: int, name: str = "k", **more: int) -> list[ExportRow]:
    """Kernels of these durations, each launched 1 us after the one before."""
    rows: list[ExportRow] = []
    for i, ns in enumerate(times, 1):
        rows += [
            call("cudaLaunchKernel", 1000 * i, 1000 * i + 10 * i, i),
            kernel(name, 1000 * i + 500, 1000 * i + 500 + ns, i, **more),
        ]
    return rows


def test_the_first_launch_counts_but_is_not_typical(tmp_path: Path) -> None:
    made = figures(tmp_path, *launched(400, 100, 120, 110))
    [row] = of(made, "kernel").values()
    assert (row.count, row.total_ns, row.typical_ns) == (4, 730, 110)
    assert row.durations == ((100, 1), (110, 1), (120, 1), (400, 1))
    assert of(made, "launch")[FIRST_CALL].total_ns == 10
    assert of(made, "launch")[REPEAT_CALL].typical_ns == 30
    assert of(made, "api")["cudaLaunchKernel"].typical_ns == 30


def test_a_kernel_that_was_launched_once_has_no_typical_time(tmp_path: Path) -> None:
    [row] = of(figures(tmp_path, *launched(400)), "kernel").values()
    assert (row.count, row.typical_ns, row.error) == (1, None, 0.0)


def test_without_recorded_calls_the_first_kernel_of_each_process_is_the_first(tmp_path: Path) -> None:
    rows = [
        kernel("k", 100, 400),
        kernel("k", 500, 600),
        kernel("k", 150, 950, pid=7),
        kernel("k", 1000, 1120, pid=7),
    ]
    [row] = of(figures(tmp_path, *rows), "kernel").values()
    assert (row.count, row.typical_ns) == (4, 110)


def test_grids_are_apart(tmp_path: Path) -> None:
    made = figures(tmp_path, *launched(100, 100), *launched(300, gridX=8, blockY=2))
    assert {(key.detail, row.count) for key, row in made.rows.items() if key.group == "kernel"} == {
        ("grid 1 1 1, block 1 1 1", 2),
        ("grid 8 1 1, block 1 2 1", 1),
    }


def test_modes_of_a_kernel_are_rows_and_its_first_launch_is_in_one(tmp_path: Path) -> None:
    times = [300_000, *(10_000, 20_000) * 10]
    rows = [kernel("k", i * 10**6, i * 10**6 + ns) for i, ns in enumerate(times)]
    made = figures(tmp_path, *rows)
    kernels = {key.mode: row for key, row in made.rows.items() if key.group == "kernel"}
    assert {mode: (row.count, row.typical_ns) for mode, row in kernels.items()} == {
        1: (10, 10_000),
        2: (11, 20_000),
    }


def test_whole_graphs_are_a_row(tmp_path: Path) -> None:
    rows = [
        row
        for i in range(3)
        for row in (
            call("cudaGraphLaunch", 100 * i, 100 * i + 5, i),
            graph(100 * i + 10, 100 * i + 20 + i, i),
        )
    ]
    made = figures(tmp_path, *rows)
    row = made.rows[Key("kernel", "[CUDA graph]")]
    assert (row.count, row.total_ns, row.typical_ns) == (3, 33, 11.5)
    assert KERNEL_TIME not in of(made, "total")
    assert of(made, "total")[BUSY].total_ns == 33
    assert made.setup.graphs == "graph"


def test_copies_have_bytes(tmp_path: Path) -> None:
    made = of(
        figures(
            tmp_path,
            memcpy(1, 0, 10, 1000),
            memcpy(1, 20, 40, 3000),
            memset(50, 55, 8),
            memcpy(12, 60, 70, 4096),
        ),
        "copy",
    )
    assert {name: (row.count, row.total_ns, row.size_bytes) for name, row in made.items()} == {
        "Host-to-Device": (2, 30, 4000),
        "Unified Device-to-Host": (1, 10, 4096),
        "memset": (1, 5, 8),
    }
    assert made["Host-to-Device"].ns_per_byte == 30 / 4000


def test_ranges_have_paths(tmp_path: Path) -> None:
    rows = [
        *(nvtx("step", 0, 100), nvtx("layer", 10, 30), nvtx("layer", 40, 80), nvtx("gelu", 45, 50)),
        *(nvtx("layer", 0, 7, tid=5), nvtx("job", 0, 90, eventType=60), nvtx("open", 95, None)),
        nvtx("step/layer", 200, 201),  # a name like a path
    ]
    found = of(figures(tmp_path, *rows), "range")
    assert {name: (row.count, row.total_ns) for name, row in found.items()} == {
        "step": (1, 100),
        "step/layer": (3, 61),
        "step/layer/gelu": (1, 5),
        "layer": (1, 7),
        "job": (1, 90),
    }


def steps_of_two_kernels(steps: int) -> Drawing:
    drawing = Drawing()
    for i in range(steps):
        drawing.range("step", i * LENGTH, i * LENGTH + LENGTH // 2)
        drawing.launch("a", i * LENGTH + 1000, gpu_ns=100)
        drawing.launch("b", i * LENGTH + 2000, gpu_ns=300)
    return drawing


def test_times_per_step_are_those_of_the_steady_steps(tmp_path: Path) -> None:
    capture = opened(tmp_path, *steps_of_two_kernels(12).rows)
    made = run_figures(capture)
    assert made.steps == 11  # the first is warm-up
    kernels = of(made, "kernel")
    assert kernels["a"].count == 12
    assert [kernels[name].per_step_ns for name in "ab"] == pytest.approx([100, 300])
    assert of(made, "range")["step"].per_step_ns == pytest.approx(LENGTH // 2)
    assert of(made, "api")["cudaLaunchKernel"].per_step_ns == sum(
        row.per_step_ns or 0 for row in of(made, "api").values()
    )
    step = of(made, "step")["'step'"]
    assert step.count == 11
    assert step.typical_ns == pytest.approx(LENGTH, rel=0.01)
    budget = made.rows[Key("budget", "other_kernel")]
    whole = made.rows[Key("budget", "other_kernel", WHOLE_RUN)]
    assert (whole.total_ns, whole.per_step_ns, whole.count) == (4800, None, 1)
    assert (budget.total_ns, budget.per_step_ns, budget.typical_ns, budget.count) == (4400, 400, 400, 11)


def test_without_steps_nothing_is_per_step(tmp_path: Path) -> None:
    made = figures(tmp_path, *launched(100, 200))
    assert (made.steps, of(made, "step")) == (0, {})
    assert all(row.per_step_ns is None for row in made.rows.values())
    assert of(made, "budget")["other_kernel"].typical_ns == 300


def test_of_many_rows_those_with_the_most_time_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_rows, "MOST_ROWS", 2)
    made = figures(tmp_path, *(nvtx(f"range {i}", 100 * i, 101 * i) for i in range(5)))
    assert set(of(made, "range")) == {"range 4", "range 3"}
    assert made.left_out == {"range": 3}


def test_a_selected_part_has_its_own_figures(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 100), kernel("k", 200, 320), memcpy(1, 500, 510, 8))
    made = run_figures(capture.select(time="50ns/400ns"))
    [row] = of(made, "kernel").values()
    assert (row.count, row.total_ns, of(made, "copy")) == (2, 170, {})


def test_an_export_without_gpu_work_has_calls_and_ranges(tmp_path: Path) -> None:
    made = figures(tmp_path, call("cudaMalloc", 0, 10, 1), nvtx("load", 0, 20))
    assert {key.group for key in made.rows} == {"api", "range"}
    assert made.steps == 0


def test_the_time_of_the_program_is_that_of_the_run(tmp_path: Path) -> None:
    write(tmp_path / EXPORT, kernel("k", 0, 100, pid=PID))
    (tmp_path / RUN).write_text(json.dumps({"program_s": 1.5}), encoding="utf-8")
    made = run_figures(open_capture(tmp_path), "the run")
    assert made.label == "the run"
    assert of(made, "total")[PROGRAM].total_ns == 1.5e9
