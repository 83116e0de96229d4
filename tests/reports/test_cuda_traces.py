"""nsys' traces of CUDA, and the summaries by grid and of everything, on tiny exports worked out on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tiny_export import Row, call, enums, kernel, memcpy, memset, nvtx, opened, row

from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.units import Unit, csv_cell, csv_cells
from nsyswrap.render.formats import csv
from nsyswrap.reports import parse

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.api import Capture
    from nsyswrap.base.units import Rounding, TimeUnit

STATISTICS = "Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
USED: dict[str, Any] = {"registersPerThread": 16, "staticSharedMemory": 1024, "dynamicSharedMemory": 0}
GREEN: dict[str, Any] = {"greenContextId": None}
GPU = row("TARGET_INFO_GPU", id=0, name="NVIDIA H200")
TRACE = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
    "Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
)


def csv_of(capture: Capture, asked: str, rounding: Rounding = "2025") -> str:
    [text] = csv.render([parse(asked).make(capture.viewed(rounding=rounding))]).values()
    return text


def rows_of(capture: Capture, asked: str, rounding: Rounding = "2025") -> list[str]:
    return csv_of(capture, asked, rounding).splitlines()[1:]


def notes_of(capture: Capture, asked: str) -> tuple[str, ...]:
    return parse(asked).make(capture).notes


def test_kernels_by_grid_and_block(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        kernel("k", 0, 20, gridX=10, blockX=128),
        kernel("k", 0, 20, gridX=9, blockX=128),
        kernel("k", 0, 30, gridX=10, blockX=32),
        kernel("k", 0, 30, gridX=10, blockX=32),
        kernel("a", 0, 20, gridX=100_000, blockZ=64),
    )
    assert csv_of(capture, "cuda_gpu_kern_gb_sum") == (
        f"Time (%),Total Time (ns),Instances,{STATISTICS},GridXYZ,BlockXYZ,Name\n"
        "50.0,60,2,30.0,30.0,30,30,0.0,  10    1    1,  32    1    1,k\n"
        "16.7,20,1,20.0,20.0,20,20,0.0,100000    1    1,   1    1   64,a\n"
        "16.7,20,1,20.0,20.0,20,20,0.0,   9    1    1, 128    1    1,k\n"
        "16.7,20,1,20.0,20.0,20,20,0.0,  10    1    1, 128    1    1,k\n"
    )


def test_calls_kernels_and_memory_operations_in_one_list(tmp_path: Path) -> None:
    calls = [call("cudaFree_v3020", 0, 10), call("cudaFree_v7000", 0, 30)]  # one name, cut off its version
    capture = opened(tmp_path, *calls, kernel("k", 0, 40), memcpy(1, 0, 15, 8), memset(0, 5, 8))
    assert csv_of(capture, "cuda_api_gpu_sum") == (
        f"Time (%),Total Time (ns),Instances,{STATISTICS},Category,Operation\n"
        "40.0,40,2,20.0,20.0,10,30,14.1,CUDA_API,cudaFree\n"
        "40.0,40,1,40.0,40.0,40,40,0.0,CUDA_KERNEL,k\n"
        "15.0,15,1,15.0,15.0,15,15,0.0,MEMORY_OPER,[CUDA memcpy Host-to-Device]\n"
        "5.0,5,1,5.0,5.0,5,5,0.0,MEMORY_OPER,[CUDA memset]\n"
    )


@pytest.mark.parametrize(("kernel_ns", "category"), [(29, "CUDA_API"), (30, "CUDA_API"), (31, "CUDA_KERNEL")])
def test_what_shares_its_name_counts_with_the_longest(kernel_ns: int, category: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("same", 0, kernel_ns), call("same", 0, 30), call("same", 0, 3))
    [line] = rows_of(capture, "cuda_api_gpu_sum")
    assert line.split(",")[2] == "3"
    assert line.endswith(f",{category},same")


@pytest.mark.parametrize("one", [call("f", 0, 1), kernel("f", 0, 1), memset(0, 1, 1), memcpy(1, 0, 1, 1)])
def test_any_of_them_is_enough(one: Row, tmp_path: Path) -> None:
    assert len(rows_of(opened(tmp_path, one), "cuda_api_gpu_sum")) == 1


def test_launches_with_their_phases(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(call("cudaLaunchKernel_v7000", 10, 20, 1, tid=7), kernel("waits", 25, 40, 1, gridX=300)),
        *(call("cudaLaunchKernel", 50, 60, 2), kernel("overlaps", 55, 58, 2, deviceId=3)),
        *(call("cudaLaunchKernel", 70, 80, 3), kernel("follows", 80, 90, 3)),
        *(call("cudaFree", 0, 5, 4), kernel("of nobody", 0, 5, 5)),
    )
    assert csv_of(capture, "cuda_kern_exec_trace") == (
        "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),"
        "Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name\n"
        "10,10,20,5,25,15,30,100,7,0,cudaLaunchKernel, 300    1    1,   1    1    1,waits\n"
        "50,10,,,55,3,10,100,100,3,cudaLaunchKernel,   1    1    1,   1    1    1,overlaps\n"
        "70,10,80,0,80,10,20,100,100,0,cudaLaunchKernel,   1    1    1,   1    1    1,follows\n"
    )


def test_a_graph_and_a_call_with_two_rows_repeat(tmp_path: Path) -> None:
    graph = [call("cudaGraphLaunch", 0, 10, 1), kernel("second", 30, 40, 1), kernel("first", 20, 30, 1)]
    nested = [call("cuLaunchKernel", 51, 58, 2), call("cudaLaunchKernel", 50, 60, 2), kernel("k", 70, 71, 2)]
    lines = rows_of(opened(tmp_path, *graph, *nested), "cuda_kern_exec_trace")
    assert [(line.split(",")[0], line.split(",")[-1]) for line in lines] == [
        ("0", "second"),  # as they stand in the export
        ("0", "first"),
        ("50", "k"),
        ("51", "k"),
    ]


def test_calls_with_their_results_and_threads(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        call("cudaMalloc_v3020", 20, 25, 2, returnValue=2),
        call("cudaFree", 0, 10, None, tid=7),
        call(9, 20, 21, 1, tid=8),
        row("ThreadNames", nameId="python3", priority=20, globalTid=call("", 0, 0).cells["globalTid"]),
        row("ThreadNames", nameId=9, priority=None, globalTid=call("", 0, 0, tid=7).cells["globalTid"]),
    )
    assert csv_of(capture, "cuda_api_trace") == (
        "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n"
        "0,10,cudaFree,0,,100,7,,\n"
        "20,5,cudaMalloc,2,2,100,100,20,python3\n"
        "20,1,,0,1,100,8,,\n"
    )
    assert notes_of(capture, "cuda_api_trace") == ()


def test_calls_of_a_trimmed_export_have_no_thread_names(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("cudaFree", 0, 10, 1))
    assert rows_of(capture, "cuda_api_trace") == ["0,10,cudaFree,0,1,100,100,,"]
    [note] = notes_of(capture, "cuda_api_trace")
    assert "ThreadNames" in note


def test_operations_in_order_of_their_start(tmp_path: Path) -> None:
    place = {"correlationId": 3, "contextId": 0, "streamId": 0, "greenContextId": None}
    capture = opened(
        tmp_path,
        memset(5, 6, 1_000_000, memKind=2, **{**place, "greenContextId": 4}),
        memcpy(2, 5, 8, 3000, srcKind=2, dstKind=0, **place),
        kernel("k", 5, 9, 1, gridX=2, blockY=3, deviceId=1, **USED, **GREEN),
        memcpy(1, 0, 5, 3000, srcKind=1, dstKind=2, **{**place, "greenContextId": 0}),
        *enums(),
        GPU,
    )
    assert csv_of(capture, "cuda_gpu_trace", "legacy") == (
        f"{TRACE}\n"
        "0,5,3,,,,,,,,,,0.003,600000.000,Pinned,Device,NVIDIA H200 (0),0,,0,[CUDA memcpy Host-to-Device]\n"
        "5,4,1,2,1,1,1,3,1,16,0.001,0.000,,,,, (1),1,,7,k\n"
        # nsys' throughput of 3000 bytes in 3 ns: 333,333,333 such copies fit into a second
        "5,3,3,,,,,,,,,,0.003,999999.999,Device,Pageable,NVIDIA H200 (0),0,,0,[CUDA memcpy Device-to-Host]\n"
        "5,1,3,,,,,,,,,,1.000,1000000000.000,Device,,NVIDIA H200 (0),0,4,0,[CUDA memset]\n"
    )
    assert notes_of(capture, "cuda_gpu_trace") == ()


def test_from_2025_on_a_zero_is_no_context_and_no_stream(tmp_path: Path) -> None:
    capture = opened(tmp_path, memcpy(11, 0, 10, 1000, contextId=0, streamId=0, **GREEN), GPU)
    assert rows_of(capture, "cuda_gpu_trace", "legacy")[0].split(",")[-4:-1] == ["0", "", "0"]
    assert rows_of(capture, "cuda_gpu_trace", "2025")[0].split(",")[-4:-1] == ["", "", ""]


@pytest.mark.parametrize(
    ("duration", "throughput"),
    [
        (0, ""),
        (7, "142857.142"),  # 1e9 // 7 = 142857142
        (999_999_999, "0.001"),
        (1_000_000_000, "0.001"),
        (1_000_000_001, "0.000"),
    ],
)
def test_throughput_is_nsys_own(duration: int, throughput: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, memcpy(1, 0, duration, 1000, **GREEN))
    assert rows_of(capture, "cuda_gpu_trace")[0].split(",")[13] == throughput


def test_what_nothing_is_known_of_is_left_empty(tmp_path: Path) -> None:
    labels = [one for one in enums() if one.cells["id"] != 2]
    copy = memcpy(2, 0, 10, 1, srcKind=2, dstKind=None, **GREEN)
    [line] = rows_of(opened(tmp_path, copy, *labels), "cuda_gpu_trace")
    assert line.split(",")[14:] == ["", "", " (0)", "1", "", "7", ""]


@pytest.mark.parametrize(
    ("rows", "without", "missing"),
    [
        ([kernel("k", 0, 5, **USED)], (), ["greenContextId", "TARGET_INFO_GPU"]),
        ([kernel("k", 0, 5, **USED, **GREEN)], ["globalPid", "contextId"], ["TARGET_INFO_GPU"]),
        (
            [memcpy(1, 0, 5, 9, srcKind=0, dstKind=2, **GREEN), GPU],
            (),
            ["ENUM_CUDA_MEMCPY_OPER", "ENUM_CUDA_MEM_KIND"],
        ),
        ([memset(0, 5, 9, **GREEN), GPU], (), ["ENUM_CUDA_MEM_KIND"]),
        ([memset(0, 5, 9, **GREEN), GPU, *enums()], (), []),
    ],
)
def test_exports_that_nsys_refuses_are_answered_with_a_note(
    rows: list[Row], without: list[str], missing: list[str], tmp_path: Path
) -> None:
    capture = opened(tmp_path, *rows, without=without)
    assert len(rows_of(capture, "cuda_gpu_trace")) == 1
    notes = notes_of(capture, "cuda_gpu_trace")
    assert len(notes) == len(missing)
    for note, name in zip(notes, missing, strict=True):
        assert name in note


@pytest.mark.parametrize("report", ["cuda_kern_exec_trace", "cuda_kern_exec_sum"])
def test_kernels_without_their_process_meet_their_calls_all_the_same(report: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, call("launch", 0, 5, 1), kernel("k", 9, 10, 1), without=["globalPid"])
    for _ in range(2):  # the join is made once; it is said each time
        assert rows_of(capture, report)[0].endswith(",k")
        [note] = notes_of(capture, report)
        assert "globalPid" in note


RANGED = (
    "cuda_gpu_kern_sum",
    "cuda_gpu_kern_gb_sum",
    "cuda_gpu_sum",
    "cuda_api_gpu_sum",
    "cuda_kern_exec_sum",
    "cuda_kern_exec_trace",
    "cuda_gpu_trace",
)


@pytest.mark.parametrize("report", RANGED)
def test_kernels_are_named_after_the_range_around_their_launch(report: str, tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        nvtx("outer", 0, 100),
        nvtx("inner", 5, 30),
        *(call("launch", 10, 20, 1), kernel("k", 200, 210, 1, shortName="s", **USED, **GREEN)),
        *(call("launch", 40, 50, 2), kernel("k", 220, 230, 2, shortName="s", **USED, **GREEN)),
        *(call("launch", 101, 102, 3), kernel("k", 240, 250, 3, shortName="s", **USED, **GREEN)),
        *(call("launch", 60, 61, 4), kernel(7, 260, 270, 4, shortName=7, **USED, **GREEN)),
    )
    asked = {f"{report}:nvtx-name": "k", f"{report}:nvtx-name:base": "s", f"{report}:base:nvtx-name": "s"}
    for name, shown in asked.items():
        seen = sorted(line.rpartition(",")[2] for line in rows_of(capture, name))
        expected = {"", shown, f"inner/{shown}", f"outer/{shown}"}
        assert set(seen) - {"launch"} == expected


@pytest.mark.parametrize("report", RANGED)
def test_ranges_that_were_not_collected_cannot_name_a_kernel(report: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, call("launch", 0, 5, 1), kernel("k", 9, 10, 1, **USED))
    with pytest.raises(NotInCapture, match="no NVTX events") as caught:
        rows_of(capture, f"{report}:nvtx-name")
    assert "--trace=nvtx" in caught.value.hint


@pytest.mark.parametrize("report", ["cuda_gpu_trace", "cuda_api_trace", "cuda_kern_exec_trace"])
def test_a_window_leaves_rows_whole(report: str, tmp_path: Path) -> None:
    rows = [call("launch", 0, 50, 1), kernel("k", 60, 90, 1, **USED, **GREEN)]
    late = [call("launch", 500, 550, 2), kernel("k", 560, 590, 2, **USED, **GREEN)]
    capture = opened(tmp_path, *rows, *late)
    assert len(rows_of(capture, report)) == 2
    assert rows_of(capture.select(time="40/70"), report) == rows_of(capture, report)[:1]


@pytest.mark.parametrize("time_unit", ["ns", "ms"])
@pytest.mark.parametrize("unit", [Unit.NS, Unit.BYTES, Unit.PERCENT, Unit.COUNT])
@pytest.mark.parametrize(
    "values", [[3, None, 3, 10**12], ["a", None], [0.0, -0.0, 0.25, 3, None], [None], []]
)
def test_a_column_is_written_like_each_of_its_cells(
    values: list[object], unit: Unit, time_unit: TimeUnit
) -> None:
    cells = [csv_cell(value, unit, "2025", time_unit) for value in values]
    assert csv_cells(values, unit, "2025", time_unit) == cells
