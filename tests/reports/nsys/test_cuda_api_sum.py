from pathlib import Path

from report_tables import STATISTICS, csv_of, names_of, rows_of
from tiny_export import call, opened

REPORT = "cuda_api_sum"
HEADER = f"Time (%),Total Time (ns),Num Calls,{STATISTICS},Name\n"


def test_api_calls(tmp_path: Path) -> None:
    calls = [call("cudaFree", 0, 75), call("cudaMalloc", 0, 10), call("cudaMalloc", 20, 35)]
    assert csv_of(opened(tmp_path, *calls), REPORT) == (
        f"{HEADER}75.0,75,1,75.0,75.0,75,75,0.0,cudaFree\n25.0,25,2,12.5,12.5,10,15,3.5,cudaMalloc\n"
    )


def test_calls_that_differ_in_their_version_stay_apart(tmp_path: Path) -> None:
    calls = [call("cudaFree_v3020", 0, 10), call("cudaFree_v7000", 0, 30)]
    assert names_of(opened(tmp_path, *calls), REPORT) == ["cudaFree", "cudaFree"]


def test_calls_of_equal_total_stand_by_the_id_of_their_name(tmp_path: Path) -> None:
    calls = [call(9, 0, 10), call(6, 0, 10), call(5, 0, 10), call(7, 0, 10)]
    capture = opened(tmp_path, *calls, strings={5: "z", 6: "a", 7: "Z"})
    assert names_of(capture, REPORT) == ["z", "a", "Z", ""]


def test_runtime_and_driver_calls_are_listed_alike(tmp_path: Path) -> None:
    calls = [call("cudaMalloc", 0, 30), call("cuMemAlloc_v2", 5, 15, eventClass=1)]
    assert rows_of(opened(tmp_path, *calls), REPORT) == [
        "75.0,30,1,30.0,30.0,30,30,0.0,cudaMalloc",
        "25.0,10,1,10.0,10.0,10,10,0.0,cuMemAlloc_v2",
    ]
