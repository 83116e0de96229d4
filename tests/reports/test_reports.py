"""nsys' own reports on tiny exports, against the CSV worked out on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tiny_export import COPY_KINDS, Row, call, kernel, memcpy, memset, opened, row

from nsyswrap.render.formats import csv

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.api import Capture
    from nsyswrap.base.units import Rounding
    from nsyswrap.capture.capture import KernelNames

STATISTICS = "Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"


def csv_of(capture: Capture, report: str, rounding: Rounding = "2025") -> str:
    [text] = csv.render([capture.report(report, rounding=rounding)]).values()
    return text


def rows_of(capture: Capture, report: str, rounding: Rounding = "2025") -> list[str]:
    return csv_of(capture, report, rounding).splitlines()[1:]


def names_of(capture: Capture, report: str) -> list[str]:
    """The last column: the names, in row order."""
    return [line.rpartition(",")[2] for line in rows_of(capture, report)]


def lasting(name: str | bytes | int, *durations: int) -> list[Row]:
    """Kernels of one name."""
    return [kernel(name, 1000, 1000 + duration) for duration in durations]


def test_kernels(tmp_path: Path) -> None:
    capture = opened(tmp_path, *lasting("a", 20, 10), *lasting("b", 70))
    assert csv_of(capture, "cuda_gpu_kern_sum") == (
        f"Time (%),Total Time (ns),Instances,{STATISTICS},Name\n"
        "70.0,70,1,70.0,70.0,70,70,0.0,b\n"
        "30.0,30,2,15.0,15.0,10,20,7.1,a\n"
    )


def test_kernels_of_equal_total_stand_by_count_then_by_name_in_byte_order(tmp_path: Path) -> None:
    kernels = [*lasting("x", 20, 40), *lasting("y", 60), *lasting("é", 60), *lasting("Z", 60)]
    capture = opened(tmp_path, *kernels, *lasting(7, 60))
    assert rows_of(capture, "cuda_gpu_kern_sum") == [
        "20.0,60,1,60.0,60.0,60,60,0.0,",  # a name that StringIds lacks
        "20.0,60,1,60.0,60.0,60,60,0.0,Z",
        "20.0,60,1,60.0,60.0,60,60,0.0,y",
        "20.0,60,1,60.0,60.0,60,60,0.0,é",
        "20.0,60,2,30.0,30.0,20,40,14.1,x",
    ]


def test_kernels_of_all_names_that_are_missing_are_one_group(tmp_path: Path) -> None:
    assert rows_of(opened(tmp_path, *lasting(7, 10), *lasting(8, 30)), "cuda_gpu_kern_sum") == [
        "100.0,40,2,20.0,20.0,10,30,14.1,"
    ]


def test_one_name_behind_two_ids_is_one_group(tmp_path: Path) -> None:
    capture = opened(tmp_path, *lasting(1, 10), *lasting(2, 30), strings={1: "a", 2: "a"})
    assert rows_of(capture, "cuda_gpu_kern_sum") == ["100.0,40,2,20.0,20.0,10,30,14.1,a"]


@pytest.mark.parametrize(("rounding", "average"), [("2025", "13408.0"), ("legacy", "13408.1")])
def test_two_eras_of_rounding(tmp_path: Path, rounding: Rounding, average: str) -> None:
    capture = opened(tmp_path, *lasting("a", *[13408] * 19, 13409))  # 268161 / 20 = 13408.05
    assert rows_of(capture, "cuda_gpu_kern_sum", rounding) == [
        f"100.0,268161,20,{average},13408.0,13408,13409,0.2,a"
    ]


def test_there_is_no_percent_of_nothing(tmp_path: Path) -> None:
    assert rows_of(opened(tmp_path, *lasting("a", 0), *lasting("b", 0)), "cuda_gpu_kern_sum") == [
        ",0,1,0.0,0.0,0,0,0.0,a",
        ",0,1,0.0,0.0,0,0,0.0,b",
    ]


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("add(int, float *)", '"add(int, float *)"'),
        ('operator""_x', '"operator""""_x"'),
        ("加<é>", "加<é>"),
        (b"b\xffd", r"b\xffd"),
        ("=cmd", "=cmd"),
        ("two\nlines", '"two\nlines"'),
    ],
)
def test_names_are_quoted_only_where_they_must_be(tmp_path: Path, name: str | bytes, cell: str) -> None:
    text = csv_of(opened(tmp_path, *lasting(name, 5)), "cuda_gpu_kern_sum")
    assert text.partition("\n")[2] == f"100.0,5,1,5.0,5.0,5,5,0.0,{cell}\n"


def test_names_that_are_no_utf8_stay_apart(tmp_path: Path) -> None:
    capture = opened(tmp_path, *lasting(b"\xfe", 1), *lasting(b"\xff", 1))
    assert names_of(capture, "cuda_gpu_kern_sum") == [r"\xfe", r"\xff"]


@pytest.mark.parametrize(
    ("names", "seen"), [("full", "void f<int>(T)"), ("base", "f"), ("mangled", "_Z1fIiEvT_")]
)
def test_kernels_are_called_as_asked(tmp_path: Path, names: KernelNames, seen: str) -> None:
    named = kernel("void f<int>(T)", 0, 5, shortName="f", mangledName="_Z1fIiEvT_")
    capture = opened(tmp_path, named, names=names)
    for report in ("cuda_gpu_kern_sum", "cuda_gpu_sum"):
        assert names_of(capture, report) == [seen]


@pytest.mark.parametrize("names", ["base", "mangled"])
def test_a_kernel_without_that_name_is_called_by_its_full_one(tmp_path: Path, names: KernelNames) -> None:
    capture = opened(tmp_path, kernel("full", 0, 5, shortName=None, mangledName=None), names=names)
    assert names_of(capture, "cuda_gpu_kern_sum") == ["full"]


def test_an_export_of_the_time_before_mangled_names(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("full", 0, 5), without=["mangledName"], names="mangled")
    assert names_of(capture, "cuda_gpu_kern_sum") == ["full"]


def test_api_calls(tmp_path: Path) -> None:
    calls = [call("cudaFree", 0, 75), call("cudaMalloc", 0, 10), call("cudaMalloc", 20, 35)]
    assert csv_of(opened(tmp_path, *calls), "cuda_api_sum") == (
        f"Time (%),Total Time (ns),Num Calls,{STATISTICS},Name\n"
        "75.0,75,1,75.0,75.0,75,75,0.0,cudaFree\n"
        "25.0,25,2,12.5,12.5,10,15,3.5,cudaMalloc\n"
    )


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaGraphLaunch_v10000", "cudaGraphLaunch_v10000"),
        ("cuMemAlloc_v2", "cuMemAlloc_v2"),
        ("cudaMemcpy_v3020_ptsz", "cudaMemcpy_v3020_ptsz"),
    ],
)
def test_a_version_of_four_digits_is_cut_off(tmp_path: Path, recorded: str, shown: str) -> None:
    capture = opened(tmp_path, call(recorded, 0, 10, 1), kernel("k", 20, 30, 1))
    assert names_of(capture, "cuda_api_sum") == [shown]
    assert rows_of(capture, "cuda_kern_exec_sum")[0].endswith(f",{shown},k")


def test_calls_that_differ_in_their_version_stay_apart(tmp_path: Path) -> None:
    calls = [call("cudaFree_v3020", 0, 10), call("cudaFree_v7000", 0, 30)]
    assert names_of(opened(tmp_path, *calls), "cuda_api_sum") == ["cudaFree", "cudaFree"]


def test_calls_of_equal_total_stand_by_the_id_of_their_name(tmp_path: Path) -> None:
    calls = [call(9, 0, 10), call(6, 0, 10), call(5, 0, 10), call(7, 0, 10)]
    capture = opened(tmp_path, *calls, strings={5: "z", 6: "a", 7: "Z"})
    assert names_of(capture, "cuda_api_sum") == ["z", "a", "Z", ""]


COPIES = [memcpy(1, 0, 30, 1_500_000), memcpy(2, 0, 30, 999), memcpy(1, 0, 30, 500_000), memset(0, 10, 499)]


def test_memory_operations_by_time(tmp_path: Path) -> None:
    assert csv_of(opened(tmp_path, *COPIES), "cuda_gpu_mem_time_sum") == (
        f"Time (%),Total Time (ns),Count,{STATISTICS},Operation\n"
        "60.0,60,2,30.0,30.0,30,30,0.0,[CUDA memcpy Host-to-Device]\n"
        "30.0,30,1,30.0,30.0,30,30,0.0,[CUDA memcpy Device-to-Host]\n"
        "10.0,10,1,10.0,10.0,10,10,0.0,[CUDA memset]\n"
    )


def test_memory_operations_by_size(tmp_path: Path) -> None:
    assert csv_of(opened(tmp_path, *COPIES), "cuda_gpu_mem_size_sum") == (
        "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n"
        "2.000,2,1.000,1.000,0.500,1.500,0.707,[CUDA memcpy Host-to-Device]\n"
        "0.001,1,0.001,0.001,0.001,0.001,0.000,[CUDA memcpy Device-to-Host]\n"
        "0.000,1,0.000,0.000,0.000,0.000,0.000,[CUDA memset]\n"
    )


@pytest.mark.parametrize("report", ["cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"])
def test_memory_operations_of_equal_total_stand_by_name(tmp_path: Path, report: str) -> None:
    capture = opened(tmp_path, memset(0, 5, 5), memcpy(9, 0, 5, 5), memcpy(8, 0, 5, 5), memcpy(2, 0, 5, 5))
    between = ["Device-to-Device", "Device-to-Host", "Host-to-Host"]
    assert names_of(capture, report) == [*(f"[CUDA memcpy {label}]" for label in between), "[CUDA memset]"]


@pytest.mark.parametrize("report", ["cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_gpu_sum"])
def test_copies_are_called_as_the_export_calls_them_and_dropped_where_it_does_not(
    tmp_path: Path, report: str
) -> None:
    label = row(COPY_KINDS, id=1, name="H2D", label="to the Device")
    capture = opened(tmp_path, memcpy(1, 0, 5, 5), memcpy(2, 0, 90, 90), label)
    assert names_of(capture, report) == ["[CUDA memcpy to the Device]"]


def test_an_export_without_labels_gets_the_built_in_ones(tmp_path: Path) -> None:
    capture = opened(tmp_path, memcpy(11, 0, 60, 5), memcpy(77, 0, 500, 5), memcpy(10, 0, 40, 5))
    assert rows_of(capture, "cuda_gpu_mem_time_sum") == [
        "60.0,60,1,60.0,60.0,60,60,0.0,[CUDA memcpy Unified Host-to-Device]",
        "40.0,40,1,40.0,40.0,40,40,0.0,[CUDA memcpy Peer-to-Peer]",
    ]


def test_kernels_and_memory_operations_together(tmp_path: Path) -> None:
    capture = opened(
        tmp_path, memset(0, 25, 8), *lasting("b", 25), *lasting("a", 10, 15), memcpy(1, 0, 25, 8)
    )
    assert csv_of(capture, "cuda_gpu_sum") == (
        f"Time (%),Total Time (ns),Instances,{STATISTICS},Category,Operation\n"
        "25.0,25,1,25.0,25.0,25,25,0.0,MEMORY_OPER,[CUDA memcpy Host-to-Device]\n"
        "25.0,25,1,25.0,25.0,25,25,0.0,MEMORY_OPER,[CUDA memset]\n"
        "25.0,25,2,12.5,12.5,10,15,3.5,CUDA_KERNEL,a\n"
        "25.0,25,1,25.0,25.0,25,25,0.0,CUDA_KERNEL,b\n"
    )
