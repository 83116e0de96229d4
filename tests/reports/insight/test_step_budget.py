"""step_budget: every column beside a second opinion that looks at every instant, and on paper."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import recorded
from drawn_programs import Program
from raw_events import read_events
from report_tables import csv_of, records_of
from sampled import sampled
from slow_budget import COLUMNS, LATER, slow_budget
from slow_steps import slow_steps
from tiny_export import call, changed, global_id, kernel, memcpy, nvtx, opened

from nsyswrap.api import open_capture
from nsyswrap.base.errors import NotInCapture
from nsyswrap.cli.explain import explain

if TYPE_CHECKING:
    from pathlib import Path

    from raw_events import Events
    from slow_budget import Slow
    from slow_steps import SlowSteps
    from tiny_export import Row as Export

    from nsyswrap.api import CaptureReader

    Row = dict[str, Any]

REPORT = "step_budget"
DRAWN = 60


def looked_at(capture: CaptureReader) -> list[Row]:
    """Return the rows of the report by looking at every instant."""
    events = read_events(capture.path)
    slow = slow_budget(events)
    rows = [
        named("capture", process, device) | slow.budget(process, device, *slow.span(process, device))
        for process, device in slow.devices()
    ]
    found = [(steps, steps_of_devices(slow, steps)) for steps in slow_steps(events) if steps.steady]
    rows += [
        steady_process(steps, device, rows) for steps, devices in found for device, rows in devices.items()
    ]
    rows += [median_step(steps, device, rows) for steps, devices in found for device, rows in devices.items()]
    for steps, devices in found:
        for number in range(len(steps.times)):
            rows += [one_step(steps, number, device, rows) for device, rows in devices.items()]
    return rows


def named(row: str, process: int, device: int, step: int | None = None, mark: str | None = None) -> Row:
    pid = process >> 24 & 0xFFFFFF
    return {"row": row, "step": step, "mark": mark, "process_id": pid, "device_id": device}


def steps_of_devices(slow: Slow, steps: SlowSteps) -> dict[int, list[dict[str, int]]]:
    """Return what each device did in each step, if it did anything in the steady part."""
    first, last = steps.times[steps.steady[0]][0], steps.times[steps.steady[-1]][1]
    return {
        device: slow.budgets(process, device, steps.times)
        for process, device in slow.devices()
        if process == steps.process and works(slow.events, process, device, first, last)
    }


def works(events: Events, process: int, device: int, first: int, last: int) -> bool:
    mine = [one for one in events.operations if (one.process, one.device) == (process, device)]
    return any(first <= one.start < last or one.start < first < one.end for one in mine)


def steady_process(steps: SlowSteps, device: int, rows: list[dict[str, int]]) -> Row:
    added = {column: sum(rows[i][column] for i in steps.steady) for column in COLUMNS}
    added["host_window_ns"] = sum(steps.host[i][0] for i in steps.steady)
    return named("steady part", steps.process, device) | added | {"start_ns": steps.times[steps.steady[0]][0]}


def median_step(steps: SlowSteps, device: int, rows: list[dict[str, int]]) -> Row:
    by_duration = sorted(steps.steady, key=lambda i: (rows[i]["duration_ns"], i))
    middle = rows[by_duration[(len(by_duration) - 1) // 2]]["duration_ns"]
    number = next(i for i in steps.steady if rows[i]["duration_ns"] == middle)
    return one_step(steps, number, device, rows) | {"row": "median step"}


def one_step(steps: SlowSteps, number: int, device: int, rows: list[dict[str, int]]) -> Row:
    mark = steps.marks[number]
    host = dict(zip(HOST, steps.host[number], strict=True))
    return (
        named("step", steps.process, device, number, None if mark == "steady" else mark) | rows[number] | host
    )


def compared(said: list[Row], expected: list[Row]) -> None:
    for row, other in zip(said, expected, strict=True):
        assert row == dict.fromkeys((*GIL, *HOST)) | other
    for row in said:
        assert row["busy_ns"] + row["idle_ns"] == row["duration_ns"]


# None where Python's lock was not traced; see tests/analysis/test_range_texts.py.
GIL = ("idle_host_gil_holding_ns", "idle_host_gil_waiting_ns")
HOST = ("host_window_ns", "runs_ahead_ns")  # None but for steps
WITHOUT_GPU_WORK = ("nvtx/host", "hybrid/threads")
LARGE = ("storm/busy",)  # looking at every instant takes 10 s, and drawn programs queue launches too


@pytest.mark.parametrize("name", [name for name in recorded.DOZEN if name not in (*WITHOUT_GPU_WORK, *LARGE)])
@pytest.mark.slow
def test_every_column_of_a_recorded_capture(name: str, tmp_path: Path) -> None:
    capture = open_capture(recorded.run_folder(name, tmp_path))
    compared(records_of(capture.report(REPORT)), looked_at(capture))


def drawn(seed: int, folder: Path) -> CaptureReader:
    folder.mkdir(exist_ok=True)
    return opened(folder, *Program(random.Random(seed)).rows)  # noqa: S311 - no secret


@sampled("seed", range(DRAWN), fast=10)
def test_every_column_of_a_drawn_program(seed: int, tmp_path: Path) -> None:
    capture = drawn(seed, tmp_path)
    compared(records_of(capture.report(REPORT)), looked_at(capture))


def test_each_state_and_mark_is_among_what_is_drawn(tmp_path: Path) -> None:
    rows = [row for i in range(DRAWN) for row in records_of(drawn(i, tmp_path / str(i)).report(REPORT))]
    never = {column for column in rows[0] if not any(row[column] for row in rows)} - set(GIL)
    # These differ from other classes of kernels in their names alone.
    assert never == {f"{kind}_kernel_ns" for kind in ("attention", "convolution", "copy", "elementwise")} | {
        f"{kind}_kernel_ns" for kind in ("fft", "norm", "reduce", "rng", "sort")
    }
    assert {row["mark"] for row in rows} == {None, "warm-up", "outlier"}
    assert {row["row"] for row in rows} == {"capture", "steady part", "median step", "step"}


@sampled("seed", range(20), fast=5)
def test_a_window_has_a_row_for_each_device(seed: int, tmp_path: Path) -> None:
    capture = drawn(seed, tmp_path)
    slow = slow_budget(read_events(capture.path))
    first, last = sorted(random.Random(seed).sample(range(500), 2))  # noqa: S311 - no secret
    said = capture.select(time=f"{first}/{last}").report(REPORT)
    compared(
        records_of(said),
        [
            named("selected part", process, device) | slow.budget(process, device, first, last)
            for process, device in slow.devices()
            if works(slow.events, process, device, first, last)
        ],
    )
    assert len(said) == 0 or any("the selected part is judged" in note for note in said.notes)


# Steps of 100 ns; the last one ends with its range:
# host  step[0 ........................ 70)     step[100 ...
# host       launch[10,20) copy[30,40)               launch[110,120) ...
# 7                    gemm[25 ........ 50)                   gemm[125 ...
# 8                               copy[45 .. 60)
def program(steps: int = 4, name: str = "step") -> list[Export]:
    rows = [nvtx(name, start, start + 70) for start in range(0, 100 * steps, 100)]
    for i in range(steps):
        start, number = 100 * i, 2 * i + 1
        rows += [call("cudaLaunchKernel", start + 10, start + 20, number)]
        rows += [kernel("gemm", start + 25, start + 50, number)]
        rows += [call("cudaMemcpyAsync", start + 30, start + 40, number + 1)]
        rows += [memcpy(2, start + 45, start + 60, 8, correlationId=number + 1, streamId=8)]
    return rows


def used(row: Row) -> Row:
    """Return the times of a row that are not 0, without unit."""
    return {name.removesuffix("_ns"): value for name, value in row.items() if name.endswith("_ns") and value}


def works_of(count: int) -> Row:
    """Return the busy time of this number of steps."""
    work = {"busy": 35, "compute": 25, "gemm_kernel": 25, "copy_exposed": 10, "copy_overlapped": 5}
    return {name: count * value for name, value in work.items()}


def test_every_time_of_four_steps(tmp_path: Path) -> None:
    rows = records_of(opened(tmp_path, *program()).report(REPORT))
    # In a step: host code before the launch (10 ns) and after the copy (40 ns); the launch until its kernel.
    usual = {
        **works_of(1),
        "duration": 100,
        "idle": 65,
        "idle_host": 50,
        "idle_launch": 15,
        "host_window": 100,
    }
    last = {**works_of(1), "duration": 70, "idle": 35, "idle_host": 20, "idle_launch": 15, "host_window": 70}
    steady = {"host_window": 270, "duration": 270, "idle": 165, "idle_host": 120, "idle_launch": 45}
    assert [used(row) for row in rows] == [
        {"start": 25, **works_of(4), "duration": 335, "idle": 195, "idle_host": 150, "idle_launch": 45},
        {"start": 100, **works_of(3), **steady},
        {"start": 100, **usual},
        usual,
        *({"start": 100 * number, **usual} for number in (1, 2)),
        {"start": 300, **last},
    ]
    assert {(row["process_id"], row["device_id"]) for row in rows} == {(100, 0)}
    assert [(row["row"], row["step"], row["mark"]) for row in rows] == [
        ("capture", None, None),
        ("steady part", None, None),
        ("median step", 1, None),
        ("step", 0, "warm-up"),  # the first launch of a kernel
        *(("step", number, None) for number in (1, 2, 3)),
    ]


def test_a_host_that_runs_ahead_has_its_time_beside_that_of_the_step(tmp_path: Path) -> None:
    # The host is done with a step after 10 ns, the GPU after 50: 40 ns later in each.
    rows = [nvtx("step", start, start + 10) for start in range(0, 40, 10)]
    for i in range(4):
        rows += [call("cudaLaunchKernel", 10 * i + 1, 10 * i + 2, i)]
        rows += [kernel("k", 5 + 50 * i, 55 + 50 * i, i)]
    table = opened(tmp_path, *rows).report(REPORT)
    steps = [row for row in records_of(table) if row["row"] == "step"]
    assert [row["duration_ns"] for row in steps] == [55, 50, 50, 50]
    assert [(row["host_window_ns"], row["runs_ahead_ns"]) for row in steps] == [
        (10, 45),
        (10, 85),
        (10, 125),
        (10, 165),
    ]


def test_ranges_of_one_name_have_one_row_together(tmp_path: Path) -> None:
    [row] = records_of(opened(tmp_path, *program()).select(nvtx="step").report(REPORT))
    # In each of the four ranges: host code before the launch and after the copy, 10 ns each, and the launch.
    times = {**works_of(4), "duration": 280, "idle": 140, "idle_host": 80, "idle_launch": 60}
    assert (row["row"], used(row)) == ("selected part", times)


def test_the_verdict(tmp_path: Path) -> None:
    assert opened(tmp_path, *program()).report(REPORT).verdict == (
        "GPU busy 38.9 % of the steady part (3 steps, median 100 ns, in total 270 ns): compute 27.8 %, "
        "exposed copies 11.1 %. Idle 61.1 %: host code outside CUDA calls 44.4 %, launch latency 16.7 %."
    )


def test_the_verdict_of_a_capture_without_steps(tmp_path: Path) -> None:
    # 40 of 100 ns busy; host code from 20 to 65, the launch from there to 80
    rows = [kernel("k", 0, 20), call("cudaLaunchKernel", 65, 70, 1), kernel("k", 80, 100, 1)]
    table = opened(tmp_path, *rows).report(REPORT)
    assert table.verdict == (
        "GPU busy 40.0 % of the capture (100 ns): compute 40.0 %. "
        "Idle 60.0 %: host code outside CUDA calls 45.0 %, launch latency 15.0 %."
    )
    assert [row["row"] for row in records_of(table)] == ["capture"]
    assert "no steady part: nothing that repeats holds 25 % of the launches" in table.notes


def test_too_few_steps_have_no_rows(tmp_path: Path) -> None:
    table = opened(tmp_path, *program(1)).report(REPORT)
    assert [row["row"] for row in records_of(table)] == ["capture"]
    assert "no steady part: nothing that repeats holds 25 % of the launches" in table.notes


def test_a_process_without_steps_counts_with_the_whole_of_its_time(tmp_path: Path) -> None:
    other = {"globalPid": global_id(200), "deviceId": 1}
    rows = [*program(), kernel("k", 0, 100, None, **other), kernel("k", 300, 330, None, **other)]
    table = opened(tmp_path, *rows).report(REPORT)
    # 105 of 270 and 130 of 330 ns busy
    assert table.verdict.startswith(
        "GPU busy 39.2 % of the steady part (3 steps, median 100 ns, in total 600 ns, sum of 2 "
    )
    assert "no steady part of process 200: no GPU operation has a recorded launch call" in table.notes


def test_steps_are_chosen_by_range_and_number(tmp_path: Path) -> None:
    rows = [*program(8), *(nvtx("part", start, start + 50) for start in range(0, 800, 200))]
    capture = opened(tmp_path, *rows)

    def starts_and_marks(steps: str) -> list[tuple[int, str | None]]:
        records = records_of(capture.viewed(steps=steps).report(REPORT))
        return [(row["start_ns"], row["mark"]) for row in records if row["row"] == "step"]

    assert [start for start, _ in starts_and_marks("part")] == [0, 200, 400, 600]
    left_out = [None if i in (2, 3) else "left out" for i in range(8)]
    assert starts_and_marks("2-3") == [(100 * i, mark) for i, mark in enumerate(left_out)]
    assert starts_and_marks("part/1")[1] == (200, None)
    with pytest.raises(NotInCapture, match="no NVTX range named 'nope' holds GPU work"):
        starts_and_marks("nope")


def test_the_device_of_a_selection_has_the_rows_that_it_has_without(tmp_path: Path) -> None:
    second = [changed(row, deviceId=1) for row in program() if "deviceId" in row.cells]
    capture = opened(tmp_path, *program(), *second)
    every = records_of(capture.report(REPORT))
    assert [row["device_id"] for row in every] == [0, 1] * 7
    assert records_of(capture.select(device=1).report(REPORT)) == every[1::2]


def test_the_columns_are_those_of_the_second_opinion(tmp_path: Path) -> None:
    header = csv_of(opened(tmp_path, *program()), REPORT).partition("\n")[0]
    first, later = COLUMNS[: -len(LATER)], COLUMNS[-len(LATER) :]
    named = ("row", "step", "mark", "process_id", "device_id", *first, *GIL, *HOST, *later)
    assert header == ",".join(named)


def test_it_explains_steps_and_states() -> None:
    text = explain(REPORT)
    for said in (
        "when the GPU work launched in its occurrence is complete",
        "Each nanosecond of a step has one",
    ):
        assert said in " ".join(text.split())
