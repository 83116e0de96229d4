from pathlib import Path

import pytest
from report_tables import STATISTICS, csv_of, names_of, rows_of
from tiny_export import Row, kernel, opened

from nsyswrap.base.units import Rounding
from nsyswrap.capture.selection import KernelNames

REPORT = "cuda_gpu_kern_sum"
HEADER = f"Time (%),Total Time (ns),Instances,{STATISTICS},Name\n"


def lasting(name: str | bytes | int, *durations: int) -> list[Row]:
    """Kernels of one name."""
    return [kernel(name, 1000, 1000 + duration) for duration in durations]


def test_kernels(tmp_path: Path) -> None:
    capture = opened(tmp_path, *lasting("a", 20, 10), *lasting("b", 70))
    assert csv_of(capture, REPORT) == (
        f"{HEADER}70.0,70,1,70.0,70.0,70,70,0.0,b\n30.0,30,2,15.0,15.0,10,20,7.1,a\n"
    )


def test_kernels_of_equal_total_stand_by_count_then_by_name_in_byte_order(tmp_path: Path) -> None:
    kernels = [*lasting("x", 20, 40), *lasting("y", 60), *lasting("é", 60), *lasting("Z", 60)]
    capture = opened(tmp_path, *kernels, *lasting(7, 60))
    assert rows_of(capture, REPORT) == [
        "20.0,60,1,60.0,60.0,60,60,0.0,",  # a name that StringIds lacks
        "20.0,60,1,60.0,60.0,60,60,0.0,Z",
        "20.0,60,1,60.0,60.0,60,60,0.0,y",
        "20.0,60,1,60.0,60.0,60,60,0.0,é",
        "20.0,60,2,30.0,30.0,20,40,14.1,x",
    ]


def test_kernels_of_all_names_that_are_missing_are_one_group(tmp_path: Path) -> None:
    assert rows_of(opened(tmp_path, *lasting(7, 10), *lasting(8, 30)), REPORT) == [
        "100.0,40,2,20.0,20.0,10,30,14.1,"
    ]


def test_one_name_behind_two_ids_is_one_group(tmp_path: Path) -> None:
    capture = opened(tmp_path, *lasting(1, 10), *lasting(2, 30), strings={1: "a", 2: "a"})
    assert rows_of(capture, REPORT) == ["100.0,40,2,20.0,20.0,10,30,14.1,a"]


@pytest.mark.parametrize(("rounding", "average"), [("2025", "13408.0"), ("legacy", "13408.1")])
def test_two_eras_of_rounding(tmp_path: Path, rounding: Rounding, average: str) -> None:
    capture = opened(tmp_path, *lasting("a", *[13408] * 19, 13409))  # 268161 / 20 = 13408.05
    assert rows_of(capture, REPORT, rounding) == [f"100.0,268161,20,{average},13408.0,13408,13409,0.2,a"]


def test_there_is_no_percent_of_nothing(tmp_path: Path) -> None:
    assert rows_of(opened(tmp_path, *lasting("a", 0), *lasting("b", 0)), REPORT) == [
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
    text = csv_of(opened(tmp_path, *lasting(name, 5)), REPORT)
    assert text.partition("\n")[2] == f"100.0,5,1,5.0,5.0,5,5,0.0,{cell}\n"


def test_names_that_are_no_utf8_stay_apart(tmp_path: Path) -> None:
    capture = opened(tmp_path, *lasting(b"\xfe", 1), *lasting(b"\xff", 1))
    assert names_of(capture, REPORT) == [r"\xfe", r"\xff"]


@pytest.mark.parametrize("names", ["base", "mangled"])
def test_a_kernel_without_that_name_is_called_by_its_full_one(tmp_path: Path, names: KernelNames) -> None:
    capture = opened(tmp_path, kernel("full", 0, 5, shortName=None, mangledName=None), names=names)
    assert names_of(capture, REPORT) == ["full"]


def test_an_export_of_the_time_before_mangled_names(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("full", 0, 5), without=["mangledName"], names="mangled")
    assert names_of(capture, REPORT) == ["full"]
