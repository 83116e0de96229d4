from pathlib import Path

import pytest
from report_tables import csv_of, rows_of, starts_of
from tiny_export import global_id, kernel, memcpy, memset, opened, row

from nsyswrap.reports import parse

REPORT = "gpu_gaps"
MS = 10**6
HEADER = "Row#,Duration (ns),Start (ns),PID,Device ID,Context ID\n"


def test_gaps(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(kernel("k", 1 * MS, 10 * MS), memcpy(11, 2 * MS, 5 * MS, 1)),  # a migration is work too
        *(memset(700 * MS, 701 * MS, 1, contextId=2), kernel("k", 1400 * MS, 1401 * MS)),
        kernel("k", 1901 * MS, 1902 * MS),  # 500 ms later: not longer than that
        *(kernel("k", 30 * MS, 31 * MS, deviceId=1), kernel("k", 900 * MS, 901 * MS, deviceId=1)),
        *(kernel("k", 40 * MS, 41 * MS, pid=200), kernel("k", 750 * MS, 751 * MS, pid=200)),
    )
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "1,869000000,31000000,100,1,1\n"
        "2,709000000,41000000,200,0,1\n"
        "3,699000000,701000000,100,0,2\n"
        "4,690000000,10000000,100,0,1\n"
    )
    assert len(rows_of(capture, "gpu_gaps:gap=499")) == 5
    assert starts_of(capture, "gpu_gaps:rows=1:gap=700") == [31 * MS]


@pytest.mark.parametrize(("start", "gaps"), [(1, [599 * MS, 99 * MS]), (0, [99 * MS])])
def test_what_began_before_the_capture_is_no_work(start: int, gaps: list[int], tmp_path: Path) -> None:
    rest = [kernel("k", 600 * MS, 601 * MS), kernel("k", 700 * MS, 701 * MS)]
    capture = opened(tmp_path, kernel("k", start, MS), *rest)
    assert parse("gpu_gaps:gap=1").make(capture).frame["duration_ns"].tolist() == gaps


@pytest.mark.parametrize(
    ("name", "pid", "gaps"),
    [
        ("CUDA profiling data flush overhead", 100, [100 * MS, 30 * MS]),
        ("CUDA profiling data flush overhead", 200, [180 * MS]),
        ("CUDA profiling data flush", 100, [180 * MS]),  # as newer exports call it
    ],
)
def test_the_profilers_own_work_is_no_gap(name: str, pid: int, gaps: list[int], tmp_path: Path) -> None:
    times = {"start": 50 * MS, "end": 100 * MS, "globalTid": global_id(pid, 1)}
    overhead = row("PROFILER_OVERHEAD", nameId=name, **times)
    capture = opened(tmp_path, kernel("k", 1, 20 * MS), kernel("k", 200 * MS, 201 * MS), overhead)
    assert parse("gpu_gaps:gap=1").make(capture).frame["duration_ns"].tolist() == gaps


def test_a_gap_of_ages_is_no_error(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 10, 20), kernel("k", 30, 40))
    assert rows_of(capture, f"gpu_gaps:gap={10**30}") == []


def test_gaps_that_are_short_enough_have_no_row(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 1, MS), kernel("k", 501 * MS, 502 * MS))  # 500 ms between them
    assert csv_of(capture, REPORT) == HEADER
