"""nsys' expert rules on tiny exports, against rows worked out on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from nsys_says import RULES, said_by
from tiny_export import MEMCPY, Row, call, enums, global_id, graph, kernel, memcpy, memset, opened, row

from nsyswrap.errors import NotInCapture, UsageError
from nsyswrap.formats import csv
from nsyswrap.reports import parse

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.capture import Capture
    from nsyswrap.units import Rounding

MS = 10**6
PLACE = "PID,Device ID,Context ID"
WHERE = f"{PLACE},Green Context ID,Stream ID,API Name"


def rows_of(capture: Capture, asked: str) -> list[str]:
    [text] = csv.render([parse(asked).make(capture)]).values()
    return text.splitlines()[1:]


def header_of(capture: Capture, asked: str) -> str:
    [text] = csv.render([parse(asked).make(capture)]).values()
    return text.splitlines()[0]


def starts_of(capture: Capture, asked: str) -> list[int]:
    return parse(asked).make(capture).frame["start_ns"].tolist()


def notes_of(capture: Capture, asked: str) -> str:
    return "; ".join(parse(asked).make(capture).notes)


def copied(start: int, end: int, correlation: int = 1, **more: object) -> Row:
    """A copy of 2.5 MB from pageable memory to a device, by call 1 if not said otherwise."""
    kinds = {"srcKind": 0, "dstKind": 2, "greenContextId": 0, "correlationId": correlation}
    return memcpy(1, start, end, 2_500_000, **{**kinds, **more})


ASYNC, SYNC = call("cudaMemcpyAsync_v3020", 0, 5, 1), call("cudaMemcpy_v3020", 0, 5, 1)


def test_asynchronous_copies_with_pageable_memory(tmp_path: Path) -> None:
    copies = [copied(10, 20), copied(30, 70, greenContextId=4), copied(80, 85, srcKind=2, dstKind=0)]
    capture = opened(tmp_path, ASYNC, *copies, copied(90, 99, srcKind=1), *enums())
    table = "cuda_memcpy_async"
    assert header_of(capture, table) == f"Duration (ns),Start (ns),Src Kind,Dst Kind,Bytes (MB),{WHERE}"
    assert rows_of(capture, table) == [
        "40,30,Pageable,Device,2.500,100,0,1,4,7,cudaMemcpyAsync_v3020",
        "10,10,Pageable,Device,2.500,100,0,1,,7,cudaMemcpyAsync_v3020",
        "5,80,Device,Pageable,2.500,100,0,1,,7,cudaMemcpyAsync_v3020",
    ]
    assert notes_of(capture, table) == ""


def test_kinds_of_memory_that_are_unknown_have_no_name(tmp_path: Path) -> None:
    capture = opened(tmp_path, ASYNC, copied(10, 20, dstKind=None), copied(10, 15, dstKind=99), *enums())
    assert [line.split(",")[2:4] for line in rows_of(capture, "cuda_memcpy_async")] == [["Pageable", ""]] * 2


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("cudaMemcpyAsync", "cuda_memcpy_async"),
        ("cudaMemcpy2DFromArrayAsync_ptsz", "cuda_memcpy_async"),
        ("CUDAMEMCPYPEERASYNC", "cuda_memcpy_async"),
        ("cudaMemcpy", "cuda_memcpy_sync"),
        ("cudaMemcpyToSymbol_v3020", "cuda_memcpy_sync"),
        ("cuMemcpyHtoDAsync_v2", ""),
        ("my_cudaMemcpyAsync", ""),
        ("cudaLaunchKernel", ""),
    ],
)
def test_which_calls_copy_and_how(name: str, rule: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, call(name, 0, 5, 1), copied(10, 20), *enums())
    found = [asked for asked in RULES[:2] if rows_of(capture, asked)]
    assert found == [rule] * bool(rule)


@pytest.mark.parametrize(
    ("copy", "blocks"),
    [
        (memcpy(1, 10, 20, 64_001), True),
        (memcpy(1, 10, 20, 64_000), False),
        (memcpy(2, 10, 20, 64_000), True),
        (memcpy(8, 10, 20, 10**6, srcDeviceId=1, dstDeviceId=1), False),
        (memcpy(10, 10, 20, 10**6, srcDeviceId=1, dstDeviceId=0), True),
        (memcpy(10, 10, 20, 10**6, srcDeviceId=None, dstDeviceId=0), True),
        (memcpy(10, 10, 20, 10**6, srcDeviceId=0, dstDeviceId=None), False),
    ],
)
def test_which_copies_block(copy: Row, blocks: bool, tmp_path: Path) -> None:  # noqa: FBT001
    capture = opened(tmp_path, SYNC, Row(MEMCPY, {**copy.cells, "correlationId": 1}), *enums())
    assert len(rows_of(capture, "cuda_memcpy_sync")) == blocks


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("cudaMemset_v3020", 1, ["10,20,Pinned,0.512,100,0,1,3,7,cudaMemset_v3020"]),
        ("cudaMemset2D", 4, ["10,20,Managed,0.512,100,0,1,3,7,cudaMemset2D"]),
        ("cudaMemset", 2, []),
        ("cudaMemsetAsync", 1, []),
    ],
)
def test_memsets_that_block(name: str, kind: int, found: list[str], tmp_path: Path) -> None:
    done = memset(20, 30, 512_000, memKind=kind, correlationId=1, greenContextId=3)
    capture = opened(tmp_path, call(name, 0, 5, 1), done, *enums())
    assert (
        header_of(capture, "cuda_memset_sync") == f"Duration (ns),Start (ns),Memory Kind,Bytes (MB),{WHERE}"
    )
    assert rows_of(capture, "cuda_memset_sync") == found


def test_an_operation_meets_every_call_with_its_correlation_id(tmp_path: Path) -> None:
    calls = [ASYNC, call("cudaMemcpyAsync", 0, 5, 1, pid=200), call("cudaMemcpyAsync", 0, 5, None)]
    capture = opened(tmp_path, *calls, copied(10, 20), copied(40, 50, None), *enums())  # type: ignore[arg-type]
    assert [line.rpartition(",")[2] for line in rows_of(capture, "cuda_memcpy_async")] == [
        "cudaMemcpyAsync_v3020",
        "cudaMemcpyAsync",
    ]
    assert notes_of(capture, "cuda_memcpy_async").startswith("in 1 rows the call is of another process")


def test_copies_of_equal_duration_stand_by_their_call_then_by_their_start(tmp_path: Path) -> None:
    calls = [call("cudaMemcpyAsync", 0, 5, 2), ASYNC]
    copies = [copied(50, 60, 1), copied(30, 40, 1), copied(70, 80, 2)]
    assert starts_of(opened(tmp_path, *calls, *copies, *enums()), "cuda_memcpy_async") == [70, 30, 50]


def test_the_calls_of_selected_copies_need_not_be_selected(tmp_path: Path) -> None:
    capture = opened(tmp_path, ASYNC, copied(10, 20), copied(30, 70), *enums())
    assert starts_of(capture.select(time="25/100"), "cuda_memcpy_async") == [30]
    assert notes_of(capture.select(time="200/300"), "cuda_memcpy_async") == "nothing in what is selected"


@pytest.mark.parametrize("rule", RULES[:4])
def test_a_capture_without_calls_cannot_answer(rule: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, copied(10, 20), memset(0, 5, 1, greenContextId=0), *enums())
    with pytest.raises(NotInCapture, match=f"{rule}: .* holds no CUDA API calls"):
        parse(rule).make(capture)


def test_an_export_that_does_not_say_what_memory_it_was(tmp_path: Path) -> None:
    done = memset(0, 5, 1, correlationId=1)
    capture = opened(
        tmp_path, ASYNC, copied(10, 20), done, *enums(), without=["srcKind", "dstKind", "memKind"]
    )
    for rule in ("cuda_memcpy_async", "cuda_memset_sync"):
        assert rows_of(capture, rule) == []
        assert "does not say what kind of memory it was" in notes_of(capture, rule)


def old(folder: Path) -> Capture:
    """An export of the time before green contexts and labels."""
    rows = [
        SYNC,
        ASYNC,
        call("cudaMemset", 0, 5, 1),
        copied(10, 20),
        memset(0, 5, 1, memKind=1, correlationId=1),
    ]
    return opened(folder, *rows, without=["greenContextId"])


@pytest.mark.parametrize("rule", RULES[:3])
def test_old_exports_are_answered_and_what_they_lack_is_said(rule: str, tmp_path: Path) -> None:
    capture = old(tmp_path)
    [line] = rows_of(capture, rule)
    assert ",0,1,,7," in line
    assert "Pageable,Device" in line or "Pinned" in line
    notes = notes_of(capture, rule)
    assert "no greenContextId" in notes
    assert "ENUM_CUDA_MEM_KIND is not in this export" in notes


@pytest.mark.nsys
def test_nsys_refuses_them(tmp_path: Path, nsys: str) -> None:
    assert set(said_by(nsys, old(tmp_path).path, RULES[:3]).values()) == {""}


def test_calls_that_synchronise(tmp_path: Path) -> None:
    calls = [
        call("cudaDeviceSynchronize_v3020", 0, 30),
        call("CUDASTREAMSYNCHRONIZE", 40, 90, tid=102),
        call("cudaEventSynchronize", 0, 999),
        call("cuStreamSynchronize", 0, 999),
        call("cudaDeviceSynchronize_v3020", 100, 130, pid=200),
    ]
    capture = opened(tmp_path, *calls)
    assert header_of(capture, "cuda_api_sync") == "Duration (ns),Start (ns),PID,TID,API Name"
    assert rows_of(capture, "cuda_api_sync") == [
        "50,40,100,102,CUDASTREAMSYNCHRONIZE",
        "30,0,100,100,cudaDeviceSynchronize_v3020",
        "30,100,200,200,cudaDeviceSynchronize_v3020",
    ]
    assert starts_of(capture, "cuda_api_sync:process=100") == [40, 0]
    assert starts_of(capture, "cuda_api_sync:process=100:thread=100") == [0]
    assert starts_of(capture, "cuda_api_sync:thread=200:process=-1") == [100]


def test_the_longest_are_listed_and_how_many_there_are_is_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, *(call("cudaDeviceSynchronize", 0, end) for end in range(60)))
    assert len(rows_of(capture, "cuda_api_sync")) == 50
    assert notes_of(capture, "cuda_api_sync") == "50 of 60 rows, the longest: rows=-1 lists all"
    assert [line.partition(",")[0] for line in rows_of(capture, "cuda_api_sync:rows=2")] == ["59", "58"]
    assert rows_of(capture, "cuda_api_sync:rows=0") == []
    assert notes_of(capture, "cuda_api_sync:rows=0") == "0 of 60 rows, the longest: rows=-1 lists all"
    assert (
        len(rows_of(capture, "cuda_api_sync:rows=-1")) == len(rows_of(capture, "cuda_api_sync:rows=60")) == 60
    )
    assert notes_of(capture, "cuda_api_sync:rows=60") == ""


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
