"""memcpy_bandwidth: copies and memsets by direction, memory and size, on paper and against nsys' totals."""

from pathlib import Path
from typing import cast

import pytest
from copy_examples import (
    DEVICE,
    KIB,
    MANAGED,
    MIB,
    PAGEABLE,
    PINNED,
    TO_DEVICE,
    TO_HOST,
    copy,
    found,
    gpu,
    notes,
    report,
)
from recorded import DOZEN, ROOT, capture_names, run_folder
from report_tables import csv_of
from sampled import sampled
from tiny_export import Row, call, graph, kernel, memset, opened

from nsyswrap import open_capture
from nsyswrap.render.formats import text

PUBLIC = sorted((ROOT.parent / "shared" / "exports").glob("*.sqlite"))
REPORT = "memcpy_bandwidth"
HEADER = (
    "operation,src_kind,dst_kind,up_to,count,total_bytes,total_ns,bandwidth_bytes_per_s,link_percent,"
    "async_pageable,async_pageable_ns,overlap_ns,left_out,link_bytes_per_s,aggregate_bytes_per_s,"
    "med_bandwidth_bytes_per_s,med_bytes,med_ns\n"
)


# CPU  C1[0,4)  C2[4,8)
# GPU  copy[0 .. 10)      copy[5 ............ 25)  set[30,32)
#      k[0,5)
def test_two_copies_and_a_memset(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(call("cudaMemcpyAsync", 0, 4, 1), call("cudaMemcpyAsync", 4, 8, 2), kernel("k", 0, 5)),
        copy(TO_DEVICE, 0, 10, 1000, (PAGEABLE, DEVICE), correlationId=1),
        copy(TO_DEVICE, 5, 25, 500, (PAGEABLE, DEVICE), correlationId=2),
        *(memset(30, 32, 800), gpu()),  # whose memory gives 1000 bytes/ns
    )
    # 1500 bytes in 30 ns, or in the 25 in which either ran; 100 and 25 bytes/ns each
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "[CUDA memcpy Host-to-Device],Pageable,Device,4 KiB,2,1500,30,50000000000.0,,"
        "2,8,5,0,,60000000000.0,62500000000.0,750.0,15.0\n"
        "[CUDA memset],,Device,4 KiB,1,800,2,400000000000.0,40.0,"
        "0,0,0,0,1000000000000.0,400000000000.0,400000000000.0,800.0,2.0\n"
    )


def test_bandwidth_is_all_bytes_over_all_time(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        copy(TO_DEVICE, 0, 10, 1000),  # 100 GB/s
        copy(TO_DEVICE, 20, 50, 600),  # 20
        copy(TO_DEVICE, 60, 70, 400),  # 40
        memset(80, 84, 8),
    )
    sums = ("operation", "src_kind", "dst_kind", "up_to", "count", "total_bytes", "total_ns")
    assert found(capture, *sums, "bandwidth_bytes_per_s", "med_bandwidth_bytes_per_s") == [
        ("[CUDA memcpy Host-to-Device]", "Pinned", "Device", "4 KiB", 3, 2000, 50, 40e9, 40e9),
        ("[CUDA memset]", None, "Device", "4 KiB", 1, 8, 4, 2e9, 2e9),
    ]
    assert found(capture, "med_bytes", "med_ns") == [(600.0, 10.0), (8.0, 4.0)]


@pytest.mark.parametrize(
    ("duration", "size", "bandwidth"), [(2_000_000_000, 3_000_000_000, 1.5e9), (7, 0, 0.0), (1, 1, 1e9)]
)
def test_bandwidth_of_copies_nsys_gives_none_for(
    tmp_path: Path, duration: int, size: int, bandwidth: float
) -> None:
    capture = opened(tmp_path, copy(TO_HOST, 0, duration, size))
    assert found(capture, "bandwidth_bytes_per_s", "aggregate_bytes_per_s") == [(bandwidth, bandwidth)]


@pytest.mark.parametrize(
    ("size", "up_to"),
    [
        *((0, "4 KiB"), (1, "4 KiB"), (4 * KIB, "4 KiB"), (4 * KIB + 1, "64 KiB"), (64 * KIB, "64 KiB")),
        *((64 * KIB + 1, "1 MiB"), (MIB, "1 MiB"), (MIB + 1, "16 MiB"), (16 * MIB, "16 MiB")),
        *((16 * MIB + 1, "256 MiB"), (256 * MIB, "256 MiB"), (256 * MIB + 1, "larger"), (2**40, "larger")),
    ],
)
def test_a_class_of_size_includes_its_limit(tmp_path: Path, size: int, up_to: str) -> None:
    assert found(opened(tmp_path, copy(TO_HOST, 0, 9, size)), "up_to") == [(up_to,)]


def test_kinds_of_memory_at_both_ends_and_sizes_make_rows_the_most_time_first(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        copy(TO_DEVICE, 0, 10, 8, (PAGEABLE, DEVICE)),
        copy(TO_DEVICE, 0, 30, 8, (PINNED, DEVICE)),
        copy(TO_DEVICE, 0, 20, MIB, (PINNED, DEVICE)),
        copy(TO_HOST, 0, 20, 8, (DEVICE, PINNED)),
        copy(TO_HOST, 0, 5, 8, (DEVICE, 77)),  # a kind of memory that the export has no name for
        memset(0, 7, 8, memKind=MANAGED),
    )
    assert found(capture, "operation", "src_kind", "dst_kind", "up_to", "total_ns") == [
        ("[CUDA memcpy Host-to-Device]", "Pinned", "Device", "4 KiB", 30),
        ("[CUDA memcpy Host-to-Device]", "Pinned", "Device", "1 MiB", 20),
        ("[CUDA memcpy Device-to-Host]", "Device", "Pinned", "4 KiB", 20),
        ("[CUDA memcpy Host-to-Device]", "Pageable", "Device", "4 KiB", 10),
        ("[CUDA memset]", None, "Managed", "4 KiB", 7),
        ("[CUDA memcpy Device-to-Host]", "Device", "kind 77", "4 KiB", 5),
    ]


def test_migrations_have_rows_of_their_own_and_no_call(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        call("cudaMemcpyAsync", 0, 3, 0),  # whose id every migration carries
        copy(TO_DEVICE, 0, 10, 100, (PINNED, DEVICE), correlationId=5),
        copy(11, 0, 20, 4 * KIB, (7, 7)),
        copy(11, 20, 40, 2 * MIB, (PAGEABLE, 7)),
        copy(12, 40, 50, 4 * KIB, (7, 7)),
    )
    columns = ("operation", "src_kind", "dst_kind", "up_to", "count", "total_bytes", "async_pageable")
    assert found(capture, *columns) == [
        ("[CUDA memcpy Unified Host-to-Device]", None, None, None, 2, 4 * KIB + 2 * MIB, 0),
        ("[CUDA memcpy Host-to-Device]", "Pinned", "Device", "4 KiB", 1, 100, 0),
        ("[CUDA memcpy Unified Device-to-Host]", None, None, None, 1, 4 * KIB, 0),
    ]
    assert found(capture, "bandwidth_bytes_per_s")[1] == (10e9,)
    assert report(capture).notes == (
        "the export has no ENUM_CUDA_MEMCPY_OPER (nsys 2022.4 or newer writes it); built-in labels used",
        "the export has no ENUM_CUDA_MEM_KIND (nsys 2022.4 or newer writes it); built-in labels used",
    )


def test_what_a_link_carried_where_copies_overlap(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        copy(TO_DEVICE, 0, 20, 1000),  # GPU 0: 30 ns for 2000 bytes
        copy(TO_DEVICE, 10, 30, 1000),
        copy(TO_DEVICE, 10, 20, 1000, deviceId=1),  # GPU 1: 10 ns for 1000
    )
    assert found(capture, "bandwidth_bytes_per_s", "aggregate_bytes_per_s") == [(60e9, 75e9)]


def test_the_time_in_which_kernels_ran_as_well(tmp_path: Path) -> None:
    #  kernels     |10----20|  |25-graph-30|        |40-45| and |42-50| at once
    #  copies    |5----15|15--------------------------------45|
    capture = opened(
        tmp_path,
        copy(TO_DEVICE, 5, 15, 8),
        copy(TO_DEVICE, 15, 45, 8),
        *(kernel("k", 10, 20), graph(25, 30, 1), kernel("k", 40, 45), kernel("k", 42, 50, streamId=9)),
        kernel("k", 0, 90, deviceId=1),
        kernel("k", 0, 90, pid=200),
    )
    assert found(capture, "total_ns", "overlap_ns") == [(40, 5 + 5 + 5 + 5)]


def test_kernels_of_an_export_without_processes_are_those_of_the_device(tmp_path: Path) -> None:
    rows = (copy(TO_DEVICE, 0, 10, 8), kernel("k", 5, 20, globalPid=None), kernel("k", 0, 90, deviceId=1))
    assert found(opened(tmp_path, *rows), "overlap_ns") == [(5,)]


ASYNCHRONOUS = ("dst_kind", "async_pageable", "async_pageable_ns")


def test_asynchronous_calls_on_pageable_memory(tmp_path: Path) -> None:
    pageable = (DEVICE, PAGEABLE)
    capture = opened(
        tmp_path,
        *(call("cudaMemcpyAsync_v3020", 0, 10, 1), call("cuMemcpyDtoHAsync_v2", 2, 9, 1)),  # one in the other
        copy(TO_HOST, 3, 8, 8, pageable, correlationId=1),
        call("cudaMemcpyBatchAsync", 20, 50, 2),
        *(copy(TO_HOST, 25 + i, 26 + i, 8, pageable, correlationId=2) for i in range(3)),
        *(call("cuMemcpyDtoHAsync_v2", 60, 64, 3), copy(TO_HOST, 61, 63, 8, pageable, correlationId=3)),
        *(call("cudaMemcpy", 70, 90, 4), copy(TO_HOST, 71, 72, 8, pageable, correlationId=4)),
        *(call("cudaMemcpyAsync", 0, 99, 3, pid=200), kernel("k", 0, 1)),  # of another process
        *(call("cudaMemcpyAsync", 95, 97, 5), copy(TO_HOST, 96, 98, 8, (DEVICE, PINNED), correlationId=5)),
    )
    assert found(capture, *ASYNCHRONOUS) == [("Pageable", 3, 10 + 30 + 4), ("Pinned", 0, 0)]
    assert report(capture).verdict == (
        "Pageable memory: 3 asynchronous calls blocked the host for 44 ns; use pinned memory."
    )


def test_without_such_calls_there_is_nothing_to_say(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(call("cudaMemcpy", 0, 9, 1), copy(TO_DEVICE, 1, 2, 8, (PAGEABLE, DEVICE), correlationId=1)),
    )
    assert (found(capture, *ASYNCHRONOUS), report(capture).verdict) == ([("Device", 0, 0)], "")


def test_what_an_export_does_not_say_is_missing_and_no_zero(tmp_path: Path) -> None:
    asked = call("cudaMemcpyAsync", 0, 9, 1)
    copied = copy(TO_DEVICE, 1, 5, 8, (PAGEABLE, DEVICE), correlationId=1)
    unsaid = "memory kinds of 1 operation are not in the export"
    calls = "no CUDA API calls recorded: asynchronous copies are unknown (nsyswrap profile --trace cuda,nvtx)"
    parts: list[tuple[list[Row], list[str], str]] = [
        ([asked, copied], ["srcKind", "dstKind"], unsaid),
        ([asked, copied], ["srcKind"], unsaid),
        ([copied], [], calls),
    ]
    for number, (rows, without, note) in enumerate(parts):
        (tmp_path / str(number)).mkdir()
        capture = opened(tmp_path / str(number), *rows, without=without)
        assert found(capture, "count", *ASYNCHRONOUS[1:]) == [(1, None, None)]
        assert note in report(capture).notes
        assert report(capture).verdict == ""


def test_rows_that_stand_for_several_copies(tmp_path: Path) -> None:
    counts = [
        copy(TO_HOST, 10 * i, 10 * i + 5, 8, copyCount=number) for i, number in enumerate((1, 3, 4, None))
    ]
    capture = opened(tmp_path, *counts)
    assert found(capture, "count") == [(4,)]
    assert notes(capture) == ["2 operations stand for 7 copies (copyCount); each counts as one"]


def test_copies_of_a_kind_without_a_name_are_left_out_as_in_nsys_and_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, copy(77, 0, 5, 8), copy(TO_HOST, 0, 5, 8))
    assert found(capture, "operation") == [("[CUDA memcpy Device-to-Host]",)]
    assert notes(capture) == ["1 operation excluded: the export has no name for that kind of copy"]


def test_a_window_cuts_times_and_no_bandwidth(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(
            call("cudaMemcpyAsync", 0, 100, 1),
            copy(TO_HOST, 0, 100, 800, (DEVICE, PAGEABLE), correlationId=1),
        ),
        kernel("k", 50, 100),
        copy(TO_HOST, 200, 300, 100, (DEVICE, PAGEABLE)),
    ).select(time="40/60")
    columns = ("count", "total_bytes", "total_ns", "overlap_ns", "async_pageable_ns")
    rates = ("bandwidth_bytes_per_s", "med_bandwidth_bytes_per_s", "aggregate_bytes_per_s")
    assert found(capture, *columns, *rates) == [(1, 160, 20, 10, 100, 8e9, 8e9, 8e9)]


@sampled("name", [*capture_names(), *map(str, PUBLIC)], fast=DOZEN)
def test_every_byte_and_every_ns_is_that_of_nsys(name: str, tmp_path: Path) -> None:
    capture = open_capture(name if name.startswith("/") else run_folder(name, tmp_path))
    if not (capture.has("memcpy") or capture.has("memset")):
        pytest.skip("no copies in it")
    sums: dict[object, tuple[int, ...]] = {}
    for operation, *values in found(capture, "operation", "count", "total_ns", "total_bytes"):
        before = sums.get(operation, (0, 0, 0))
        sums[operation] = tuple(a + cast("int", b) for a, b in zip(before, values, strict=True))
    time, size = (capture.report(f"cuda_gpu_mem_{what}_sum").data for what in ("time", "size"))
    bytes_of = dict(zip(size["operation"], size["total_bytes"], strict=True))
    assert sums == {
        operation: (count, total, bytes_of[operation])
        for operation, count, total in zip(time["operation"], time["count"], time["total_ns"], strict=True)
    }


@pytest.mark.parametrize(
    "name", ["copies/pageable", "copies/pinned", "p2p/host", "p2p/staged", "p2p/direct", "overlap/one_stream"]
)
def test_bandwidths_of_a_real_gpu_are_possible_ones(name: str, tmp_path: Path) -> None:
    """On an H200: 64 GB/s between host and device, 450 GB/s between devices, 4.8 TB/s of memory."""
    capture = open_capture(run_folder(name, tmp_path))
    figures = ("bandwidth_bytes_per_s", "link_percent", "left_out", "count")
    for operation, *values in found(capture, "operation", *figures):
        bandwidth, share, left_out, count = (cast("float", value) for value in values)
        limits = {"Host": 64e9, "Peer": 450e9, "memset": 4.9e12}
        [most] = [limit for name, limit in limits.items() if name in str(operation)]
        assert left_out in (0, count)
        assert bandwidth is None if left_out else 0 < bandwidth < most
        assert share is None or 0 < share < 100


def test_staged_copies_of_a_real_run_are_marked(tmp_path: Path) -> None:
    capture = open_capture(run_folder("p2p/staged", tmp_path))
    rows = found(capture, "operation", "src_kind", "dst_kind", "left_out")
    marked = [values for values in rows if values[-1]]
    assert {values[:3] for values in marked} == {
        (f"[CUDA memcpy {way}]", "Device", "Device") for way in ("Host-to-Device", "Device-to-Host")
    }
    assert [values[-1] for values in marked] == [28, 28, 14, 14, 14, 14, 14, 14, 14, 14]
    assert notes(capture)[0].startswith("168 operations went between two GPUs through the host")


def test_a_screen_of_100_columns_shows_what_matters(tmp_path: Path) -> None:
    capture = open_capture(run_folder("copies/pageable", tmp_path))
    [shown] = text.render([report(capture)], width=100).values()
    header = (
        "Operation                     Src Kind  Dst Kind  Size <=  Count     Size  Total Time  Bandwidth"
    )
    assert shown.splitlines()[1] == header
