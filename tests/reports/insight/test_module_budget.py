"""module_budget: each nanosecond of the steady steps belongs to one module; sums are those of step_budget."""

from pathlib import Path
from typing import Any

import pytest
import recorded
from made_modules import STEP_NS, Training
from report_tables import records_of, table_of
from tiny_export import Row, call, kernel, memcpy, nvtx, opened

from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.reports.insight.step_budget import STEADY

REPORT = "module_budget"
SUMS = {"total_ns": "duration_ns", "compute_ns": "compute_ns", "idle_ns": "idle_ns"} | {
    "communication_ns": "communication_exposed_ns",
    "copy_ns": "copy_exposed_ns",
}


def budget(capture: CaptureReader, asked: str = REPORT) -> dict[str, dict[str, Any]]:
    return {record["module"]: record for record in records_of(table_of(capture, asked))}


def steps_of(number: int) -> list[Row]:
    """Steps in ranges of the program's own, which mark them."""
    made = Training()
    for step in range(number):
        made.range("iteration", step * STEP_NS, (step + 1) * STEP_NS - 1)
        made.step(step)
    return made.rows


def test_the_parts_of_a_step(tmp_path: Path) -> None:
    capture = opened(tmp_path, *steps_of(6))
    rows = budget(capture)
    steps = rows["GPT"]["compute_ns"] // 3
    assert steps >= 3
    assert {name: row["compute_ns"] for name, row in rows.items() if row["compute_ns"]} == {
        "GPT": 3 * steps,
        "layers.0": 35 * steps,
        "layers.1": 65 * steps,
        "iteration/optimizer": 7 * steps,
    }
    assert rows["layers.1"]["backward_ns"] > 45 * steps  # with the idle time before its kernels
    for row in rows.values():
        assert row["per_step_ns"] * steps == pytest.approx(row["total_ns"])
        parts = ("compute_ns", "communication_ns", "copy_ns", "idle_ns")
        assert sum(row[part] for part in parts) == row["total_ns"]
    check_sums(capture)


def test_idle_time_and_overlaps_have_one_owner_each(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("a", 0, 100), nvtx("b", 100, 200)),
        *(call("launch", 10, 12, 1), kernel("k", 20, 40, 1)),
        *(call("launch", 110, 112, 2), kernel("k", 30, 60, 2)),  # 10 beside the first
        *(call("launch", 120, 122, 3), kernel("ncclDevKernel_AllReduce()", 50, 75, 3)),  # 15 exposed
        *(call("cudaMemcpyAsync", 20, 22, 4), memcpy(1, 70, 90, 8, correlationId=4)),  # 15 exposed
        *(call("launch", 130, 132, 5), kernel("k", 100, 101, 5)),
    )
    rows = budget(capture)
    columns = ("total_ns", "compute_ns", "communication_ns", "copy_ns", "idle_ns")
    assert {name: tuple(row[column] for column in columns) for name, row in rows.items()} == {
        "b": (46, 21, 15, 0, 10),
        "a": (35, 20, 0, 15, 0),
    }


def test_depth_adds_up_what_is_below(tmp_path: Path) -> None:
    capture = opened(tmp_path, *steps_of(6))
    whole, top = budget(capture), budget(capture, f"{REPORT}:depth=1")
    assert {"GPT", "iteration"} <= set(top) <= {"GPT", "iteration", "(no module or range)"}
    assert top["GPT"]["total_ns"] == sum(whole[name]["total_ns"] for name in ("GPT", "layers.0", "layers.1"))


@pytest.mark.parametrize(
    "name", ["cdist/mm", "ddp/straggler", "graphs/graph", "hybrid/gpu", "overlap/four_streams"]
)
def test_the_sums_are_those_of_step_budget(name: str, tmp_path: Path) -> None:
    check_sums(open_capture(recorded.run_folder(name, tmp_path)))


def check_sums(capture: CaptureReader) -> None:
    mine = records_of(table_of(capture, REPORT))
    steady = [row for row in records_of(table_of(capture, "step_budget")) if row["row"] == STEADY]
    assert steady
    for part in steady:
        rows = [row for row in mine if row["device_id"] == part["device_id"]]
        rows = [row for row in rows if row["process_id"] == part["process_id"]]
        for column, expected in SUMS.items():
            assert sum(row[column] for row in rows) == part[expected], column
