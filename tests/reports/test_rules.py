"""nsys' expert rules on tiny exports, against rows worked out on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asked_reports import header_of, notes_of, rows_of, starts_of
from nsys_says import RULES, said_by
from tiny_export import MEMCPY, Row, call, enums, memcpy, memset, opened

from nsyswrap.base.errors import NotInCapture
from nsyswrap.reports import parse

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.api import Capture

MS = 10**6
PLACE = "PID,Device ID,Context ID"
WHERE = f"{PLACE},Green Context ID,Stream ID,API Name"


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
    assert notes_of(capture, "cuda_memcpy_async").startswith("rows whose call is of another process: 1;")


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
