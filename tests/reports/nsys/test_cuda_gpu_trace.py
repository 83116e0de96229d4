from pathlib import Path
from typing import Any

import pytest
from report_tables import csv_of, notes_of, rows_of
from tiny_export import Row, enums, kernel, memcpy, memset, opened, row

REPORT = "cuda_gpu_trace"
USED: dict[str, Any] = {"registersPerThread": 16, "staticSharedMemory": 1024, "dynamicSharedMemory": 0}
GREEN: dict[str, Any] = {"greenContextId": None}
GPU = row("TARGET_INFO_GPU", id=0, name="NVIDIA H200")
HEADER = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
    "Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
)


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
    assert csv_of(capture, REPORT, "legacy") == (
        f"{HEADER}"
        "0,5,3,,,,,,,,,,0.003,600000.000,Pinned,Device,NVIDIA H200 (0),0,,0,[CUDA memcpy Host-to-Device]\n"
        "5,4,1,2,1,1,1,3,1,16,0.001,0.000,,,,, (1),1,,7,k\n"
        # nsys' throughput of 3000 bytes in 3 ns: 333,333,333 such copies fit into a second
        "5,3,3,,,,,,,,,,0.003,999999.999,Device,Pageable,NVIDIA H200 (0),0,,0,[CUDA memcpy Device-to-Host]\n"
        "5,1,3,,,,,,,,,,1.000,1000000000.000,Device,,NVIDIA H200 (0),0,4,0,[CUDA memset]\n"
    )
    assert notes_of(capture, REPORT) == ()


def test_from_2025_on_a_zero_is_no_context_and_no_stream(tmp_path: Path) -> None:
    capture = opened(tmp_path, memcpy(11, 0, 10, 1000, contextId=0, streamId=0, **GREEN), GPU)
    assert rows_of(capture, REPORT, "legacy")[0].split(",")[-4:-1] == ["0", "", "0"]
    assert rows_of(capture, REPORT, "2025")[0].split(",")[-4:-1] == ["", "", ""]


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
    assert rows_of(capture, REPORT)[0].split(",")[13] == throughput


def test_what_nothing_is_known_of_is_left_empty(tmp_path: Path) -> None:
    labels = [one for one in enums() if one.cells["id"] != 2]
    copy = memcpy(2, 0, 10, 1, srcKind=2, dstKind=None, **GREEN)
    [line] = rows_of(opened(tmp_path, copy, *labels), REPORT)
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
    assert len(rows_of(capture, REPORT)) == 1
    notes = notes_of(capture, REPORT)
    assert len(notes) == len(missing)
    for note, name in zip(notes, missing, strict=True):
        assert name in note
