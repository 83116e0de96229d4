"""The same launches by several clocks, worked out on paper."""

from pathlib import Path
from typing import Any

import pytest
from tiny_export import KERNEL, Row, call, kernel, nvtx, opened

from nsyswrap.base.errors import NotInCapture
from nsyswrap.reports import scenario_tables
from nsyswrap.reports.scenario_tables import CLOCKS, cross_check

KERNEL_NS = 40_000
COLUMNS = [column.name for column in scenario_tables.CROSS_CHECK.columns]


def launch(number: int, at: int) -> list[Row]:
    return [
        call("cudaLaunchKernel", at + 10, at + 20, number),
        kernel("k", at + 30, at + 30 + KERNEL_NS, number),
    ]


def recorded() -> list[Row]:
    """One launch to warm up and two that are timed, each 1 ms after the other."""
    spans = [("warm-up sync/a * b", 0), ("sync/a * b", 1_000_000), ("sync/a * b", 2_000_000)]
    rows = [nvtx(name, at, at + 50_000) for name, at in spans]
    return [*rows, *(row for number, (_, at) in enumerate(spans) for row in launch(number + 1, at))]


def result(median_us: float, launches: int = 3, variant: str = "sync") -> dict[str, Any]:
    timing = {"range": f"{variant}/a * b", "operator": "a * b", "median_us": median_us, "launches": launches}
    return {"timings": [timing]}


def checked(tmp_path: Path, **medians_us: float) -> dict[str, dict[str, Any]]:
    by_clock = {clock: result(median_us, variant=clock) for clock, median_us in medians_us.items()}
    table = cross_check(opened(tmp_path, *recorded()), result(60.0), by_clock)
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in table.rows()]
    return {str(row["clock"]): row for row in rows}


def test_nsys_and_every_clock_have_a_row(tmp_path: Path) -> None:
    rows = checked(tmp_path, sync=50.0, event=43.0, profiler=40.0)
    assert list(rows) == ["nsys", "perf_counter", "cuda.Event", "torch.profiler"]
    assert {row["operator"] for row in rows.values()} == {"a * b"}
    assert {row["launches"] for row in rows.values()} == {3}
    assert [row["median_ns"] for row in rows.values()] == [40_000, 50_000, 43_000, 40_000]
    assert [row["beyond_ns"] for row in rows.values()] == [0, 10_000, 3000, 0]
    assert [row["beyond_percent"] for row in rows.values()] == [0, 25, 7.5, 0]


def test_what_is_off_by_more_than_a_tenth_has_its_reason(tmp_path: Path) -> None:
    rows = checked(tmp_path, sync=50.0, event=45.0, profiler=43.9)
    assert rows["perf_counter"]["note"] == CLOCKS["sync"][1]
    assert rows["cuda.Event"]["note"] == CLOCKS["event"][1]
    assert rows["torch.profiler"]["note"] == ""


@pytest.mark.parametrize(
    ("clock", "median_us"), [("sync", 35.0), ("event", 35.0), ("profiler", 35.0), ("profiler", 45.0)]
)
def test_what_the_method_does_not_explain_is_not_explained(
    tmp_path: Path, clock: str, median_us: float
) -> None:
    [row] = [row for name, row in checked(tmp_path, **{clock: median_us}).items() if name != "nsys"]
    assert row["note"].startswith("unexplained")


def test_launches_that_differ_are_told(tmp_path: Path) -> None:
    table = cross_check(opened(tmp_path, *recorded()), result(60.0), {"event": result(41.0, launches=5)})
    assert table.rows()[1][-1] == "the run with nsys made 3 launches"


def test_nsys_counts_what_it_recorded(tmp_path: Path) -> None:
    rows = [row for row in recorded() if row.cells.get("correlationId") != 1]  # the warm-up's launch is lost
    [row] = cross_check(opened(tmp_path, *rows), result(60.0), {}).rows()
    assert (row[2], row[-1]) == (2, "of 3 launches of the program")


@pytest.mark.parametrize("lost", ["kernel", "range"])
def test_a_capture_without_the_kernels_is_an_error(tmp_path: Path, lost: str) -> None:
    kept = [row for row in recorded() if lost != "kernel" or row.table != KERNEL]
    under_nsys = result(60.0, variant="another" if lost == "range" else "sync")
    capture = opened(tmp_path, *kept)
    with pytest.raises(NotInCapture, match="no kernels in NVTX range"):
        cross_check(capture, under_nsys, {})
