from pathlib import Path

import pytest
from report_tables import csv_of, notes_text, rows_of, starts_of
from tiny_export import kernel, opened

from nsyswrap.base.units import Rounding

REPORT = "gpu_time_util"
HEADER = "Row#,In-Use (%),Duration (ns),Start (ns),PID,Device ID,Context ID\n"


def test_two_stretches_that_are_hardly_used(tmp_path: Path) -> None:
    # in 30 chunks of 10 ns: nothing runs from 110 to 200, and 1 + 3 ns of the 180 from 210 to 390, 2.2 %
    busy = [(100, 110), (200, 210), (225, 226), (301, 304), (390, 400)]
    capture = opened(tmp_path, *(kernel("k", start, end) for start, end in busy))
    assert csv_of(capture, REPORT) == f"{HEADER}1,0.0,90,110,100,0,1\n2,2.2,180,210,100,0,1\n"


def test_stretches_that_are_hardly_used(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(kernel("k", 1000, 1100), kernel("k", 1050, 1120)),  # side by side: they add up
        kernel("k", 1500, 1545, contextId=2),
        kernel("k", 1600, 2000),
        kernel("k", 1700, 2000, contextId=3),  # ends as late as the one before
    )
    # 100 ns each: 150, 20, 0, 0, 0, 45, and then all of it
    assert rows_of(capture, "gpu_time_util:chunks=10") == ["1,13.0,500,1100,100,0,1"]
    assert rows_of(capture, "gpu_time_util:chunks=10:threshold=45") == ["1,5.0,400,1100,100,0,1"]
    assert rows_of(capture, "gpu_time_util:chunks=10:threshold=20") == ["1,0.0,300,1200,100,0,1"]
    assert rows_of(capture, "gpu_time_util:chunks=10:threshold=0") == []
    assert rows_of(capture, "gpu_time_util:chunks=1:threshold=99") == ["1,91.5,1000,1000,100,0,1"]


def test_the_last_chunk_can_be_shorter_and_weighs_less(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 100, 102), kernel("k", 109, 110))
    # 10 ns in 4 chunks: 3 ns with 2 in use, 3 and 3 with none, and 1 that is
    assert rows_of(capture, "gpu_time_util:chunks=4") == ["1,0.0,6,103,100,0,1"]
    assert rows_of(capture, "gpu_time_util:chunks=4:threshold=101") == ["1,30.0,10,100,100,0,1"]
    # in 7 chunks of 2 ns there are but 5
    assert rows_of(capture, "gpu_time_util:chunks=7:threshold=60") == ["1,12.5,8,102,100,0,1"]


def test_the_least_used_come_first_and_of_those_the_shortest(tmp_path: Path) -> None:
    busy = [(100, 200), (400, 500), (502, 503), (600, 700), (800, 900), (1200, 1300)]
    capture = opened(tmp_path, *(kernel("k", start, end) for start, end in busy))
    assert rows_of(capture, "gpu_time_util:chunks=12") == [
        "1,0.0,100,700,100,0,1",
        "2,0.0,200,200,100,0,1",
        "3,0.0,300,900,100,0,1",
        "4,1.0,100,500,100,0,1",
    ]
    assert starts_of(capture, "gpu_time_util:chunks=12:rows=2") == [200, 500]
    assert "2 of 4 rows (the first and not the least used, as in nsys)" in notes_text(
        capture, "gpu_time_util:chunks=12:rows=2"
    )


@pytest.mark.parametrize(("rounding", "in_use"), [("2025", "0.1"), ("legacy", "0.2")])
def test_two_eras_of_rounding(rounding: Rounding, in_use: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 100, 102), kernel("k", 2099, 2100)).viewed(rounding=rounding)
    assert rows_of(capture, "gpu_time_util:chunks=1") == [f"1,{in_use},2000,100,100,0,1"]


def test_a_gpu_that_is_used_all_the_time_has_no_row(tmp_path: Path) -> None:
    assert csv_of(opened(tmp_path, kernel("k", 100, 400)), REPORT) == HEADER
