from pathlib import Path

from report_tables import csv_of, rows_of
from tiny_export import call, kernel, opened

REPORT = "cuda_kern_exec_trace"
HEADER = (
    "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),"
    "Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name\n"
)


def test_launches_with_their_phases(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(call("cudaLaunchKernel_v7000", 10, 20, 1, tid=7), kernel("waits", 25, 40, 1, gridX=300)),
        *(call("cudaLaunchKernel", 50, 60, 2), kernel("overlaps", 55, 58, 2, deviceId=3)),
        *(call("cudaLaunchKernel", 70, 80, 3), kernel("follows", 80, 90, 3)),
        *(call("cudaFree", 0, 5, 4), kernel("of nobody", 0, 5, 5)),
    )
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "10,10,20,5,25,15,30,100,7,0,cudaLaunchKernel, 300    1    1,   1    1    1,waits\n"
        "50,10,,,55,3,10,100,100,3,cudaLaunchKernel,   1    1    1,   1    1    1,overlaps\n"
        "70,10,80,0,80,10,20,100,100,0,cudaLaunchKernel,   1    1    1,   1    1    1,follows\n"
    )


def test_a_graph_and_a_call_with_two_rows_repeat(tmp_path: Path) -> None:
    graph = [call("cudaGraphLaunch", 0, 10, 1), kernel("second", 30, 40, 1), kernel("first", 20, 30, 1)]
    nested = [call("cuLaunchKernel", 51, 58, 2), call("cudaLaunchKernel", 50, 60, 2), kernel("k", 70, 71, 2)]
    lines = rows_of(opened(tmp_path, *graph, *nested), REPORT)
    assert [(line.split(",")[0], line.split(",")[-1]) for line in lines] == [
        ("0", "second"),  # as they stand in the export
        ("0", "first"),
        ("50", "k"),
        ("51", "k"),
    ]


def test_a_kernel_that_meets_no_call_has_no_row(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("cudaLaunchKernel", 0, 5, 1), kernel("k", 9, 10, 2))
    assert csv_of(capture, REPORT) == HEADER
