from pathlib import Path

from report_tables import csv_of, notes_of, notes_text, rows_of, starts_of
from tiny_export import Row, call, enums, memcpy, opened

REPORT = "cuda_memcpy_async"
HEADER = (
    "Duration (ns),Start (ns),Src Kind,Dst Kind,Bytes (MB),PID,Device ID,Context ID,Green Context ID,"
    "Stream ID,API Name\n"
)
ASYNC = call("cudaMemcpyAsync_v3020", 0, 5, 1)


def copied(start: int, end: int, correlation: int | None = 1, **more: object) -> Row:
    """A copy of 2.5 MB from pageable memory to a device, by call 1 if not said otherwise."""
    kinds = {"srcKind": 0, "dstKind": 2, "greenContextId": 0, "correlationId": correlation}
    return memcpy(1, start, end, 2_500_000, **{**kinds, **more})


def test_asynchronous_copies_with_pageable_memory(tmp_path: Path) -> None:
    copies = [copied(10, 20), copied(30, 70, greenContextId=4), copied(80, 85, srcKind=2, dstKind=0)]
    capture = opened(tmp_path, ASYNC, *copies, copied(90, 99, srcKind=1), *enums())
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "40,30,Pageable,Device,2.500,100,0,1,4,7,cudaMemcpyAsync_v3020\n"
        "10,10,Pageable,Device,2.500,100,0,1,,7,cudaMemcpyAsync_v3020\n"
        "5,80,Device,Pageable,2.500,100,0,1,,7,cudaMemcpyAsync_v3020\n"
    )
    assert notes_of(capture, REPORT) == ()


def test_kinds_of_memory_that_are_unknown_have_no_name(tmp_path: Path) -> None:
    capture = opened(tmp_path, ASYNC, copied(10, 20, dstKind=None), copied(10, 15, dstKind=99), *enums())
    assert [line.split(",")[2:4] for line in rows_of(capture, REPORT)] == [["Pageable", ""]] * 2


def test_an_operation_meets_every_call_with_its_correlation_id(tmp_path: Path) -> None:
    calls = [ASYNC, call("cudaMemcpyAsync", 0, 5, 1, pid=200), call("cudaMemcpyAsync", 0, 5, None)]
    capture = opened(tmp_path, *calls, copied(10, 20), copied(40, 50, None), *enums())
    assert [line.rpartition(",")[2] for line in rows_of(capture, REPORT)] == [
        "cudaMemcpyAsync_v3020",
        "cudaMemcpyAsync",
    ]
    assert notes_text(capture, REPORT).startswith("rows with a call of another process: 1;")


def test_copies_of_equal_duration_stand_by_their_call_then_by_their_start(tmp_path: Path) -> None:
    calls = [call("cudaMemcpyAsync", 0, 5, 2), ASYNC]
    copies = [copied(50, 60, 1), copied(30, 40, 1), copied(70, 80, 2)]
    assert starts_of(opened(tmp_path, *calls, *copies, *enums()), REPORT) == [70, 30, 50]


def test_the_calls_of_selected_copies_need_not_be_selected(tmp_path: Path) -> None:
    capture = opened(tmp_path, ASYNC, copied(10, 20), copied(30, 70), *enums())
    assert starts_of(capture.select(time="25/100"), REPORT) == [30]
    assert notes_text(capture.select(time="200/300"), REPORT) == "no events in the selection"


def test_copies_of_pinned_memory_have_no_row(tmp_path: Path) -> None:
    assert csv_of(opened(tmp_path, ASYNC, copied(10, 20, srcKind=1), *enums()), REPORT) == HEADER
