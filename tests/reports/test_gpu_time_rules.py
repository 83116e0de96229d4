"""nsys' rules on the GPU's time, and on options, on tiny exports: rows worked out on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asked_reports import header_of, notes_of, rows_of, starts_of
from nsys_says import RULES
from tiny_export import global_id, graph, kernel, memcpy, memset, opened, row

from nsyswrap.base.errors import UsageError
from nsyswrap.reports import parse

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.base.units import Rounding

MS = 10**6
PLACE = "PID,Device ID,Context ID"


def test_gaps(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(kernel("k", 1 * MS, 10 * MS), memcpy(11, 2 * MS, 5 * MS, 1)),  # a migration is work too
        *(memset(700 * MS, 701 * MS, 1, contextId=2), kernel("k", 1400 * MS, 1401 * MS)),
        kernel("k", 1901 * MS, 1902 * MS),  # 500 ms later: not longer than that
        *(kernel("k", 30 * MS, 31 * MS, deviceId=1), kernel("k", 900 * MS, 901 * MS, deviceId=1)),
        *(kernel("k", 40 * MS, 41 * MS, pid=200), kernel("k", 750 * MS, 751 * MS, pid=200)),
    )
    assert header_of(capture, "gpu_gaps") == f"Row#,Duration (ns),Start (ns),{PLACE}"
    assert rows_of(capture, "gpu_gaps") == [
        f"1,{869 * MS},{31 * MS},100,1,1",
        f"2,{709 * MS},{41 * MS},200,0,1",
        f"3,{699 * MS},{701 * MS},100,0,2",
        f"4,{690 * MS},{10 * MS},100,0,1",
    ]
    assert len(rows_of(capture, "gpu_gaps:gap=499")) == 5
    assert starts_of(capture, "gpu_gaps:rows=1:gap=700") == [31 * MS]


@pytest.mark.parametrize(("start", "gaps"), [(1, [599 * MS, 99 * MS]), (0, [99 * MS])])
def test_what_began_before_the_capture_is_no_work(start: int, gaps: list[int], tmp_path: Path) -> None:
    rest = [kernel("k", 600 * MS, 601 * MS), kernel("k", 700 * MS, 701 * MS)]
    capture = opened(tmp_path, kernel("k", start, MS), *rest)
    assert parse("gpu_gaps:gap=1").make(capture).frame["duration_ns"].tolist() == gaps


def test_without_any_work_there_is_nothing_to_find(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, MS))
    assert rows_of(capture, "gpu_gaps") == rows_of(capture, "gpu_time_util") == []


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


def test_whole_graphs_are_no_work_to_nsys_and_that_is_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 1, 2), graph(10, 600 * MS, 1), kernel("k", 601 * MS, 602 * MS))
    for rule in RULES[4:]:
        assert len(rows_of(capture, rule)) == 1
        assert "1 whole-graph executions do not count as work" in notes_of(capture, rule)


def test_a_trimmed_export_has_one_process_and_no_contexts(tmp_path: Path) -> None:
    trimmed = ["globalPid", "contextId"]
    capture = opened(tmp_path, kernel("k", 1, 5), kernel("k", 2 * MS, 3 * MS), without=trimmed)
    assert rows_of(capture, "gpu_gaps:gap=1") == [f"1,{2 * MS - 5},5,,0,"]
    assert rows_of(capture, "gpu_time_util:chunks=2") == [f"1,0.0,{MS * 3 // 2},1,,0,"]


def test_stretches_that_are_hardly_used(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(kernel("k", 1000, 1100), kernel("k", 1050, 1120)),  # side by side: they add up
        kernel("k", 1500, 1545, contextId=2),
        kernel("k", 1600, 2000),
        kernel("k", 1700, 2000, contextId=3),  # ends as late as the one before
    )
    assert header_of(capture, "gpu_time_util") == f"Row#,In-Use (%),Duration (ns),Start (ns),{PLACE}"
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
    assert "2 of 4 rows, the first and not the least used" in notes_of(
        capture, "gpu_time_util:chunks=12:rows=2"
    )


@pytest.mark.parametrize(("rounding", "in_use"), [("2025", "0.1"), ("legacy", "0.2")])
def test_two_eras_of_rounding(rounding: Rounding, in_use: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 100, 102), kernel("k", 2099, 2100)).viewed(rounding=rounding)
    assert rows_of(capture, "gpu_time_util:chunks=1") == [f"1,{in_use},2000,100,100,0,1"]


def test_one_operation_leaves_nothing_to_say(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 10, 10))
    assert rows_of(capture, "gpu_gaps:gap=0") == rows_of(capture, "gpu_time_util:threshold=101") == []


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("gpu_time_util:chunks=0", "at least 1 and at most 1000"),
        ("gpu_time_util:chunks=1001", "at least 1 and at most 1000"),
        ("gpu_gaps:gap=-1", "at least 0"),
        ("gpu_gaps:chunks=3", "it takes rows=N, gap=N"),
    ],
)
def test_options_out_of_range(asked: str, hint: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 10, 20))
    with pytest.raises(UsageError) as caught:
        parse(asked).make(capture)
    assert caught.value.hint == hint


def test_a_gap_of_ages_is_no_error(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 10, 20), kernel("k", 30, 40))
    assert rows_of(capture, f"gpu_gaps:gap={10**30}") == []
