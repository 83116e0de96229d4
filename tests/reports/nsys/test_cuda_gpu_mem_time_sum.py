from pathlib import Path

from report_tables import STATISTICS, csv_of, rows_of
from tiny_export import memcpy, memset, opened

REPORT = "cuda_gpu_mem_time_sum"
HEADER = f"Time (%),Total Time (ns),Count,{STATISTICS},Operation\n"
COPIES = [memcpy(1, 0, 30, 1_500_000), memcpy(2, 0, 30, 999), memcpy(1, 0, 30, 500_000), memset(0, 10, 499)]


def test_memory_operations_by_time(tmp_path: Path) -> None:
    assert csv_of(opened(tmp_path, *COPIES), REPORT) == (
        f"{HEADER}"
        "60.0,60,2,30.0,30.0,30,30,0.0,[CUDA memcpy Host-to-Device]\n"
        "30.0,30,1,30.0,30.0,30,30,0.0,[CUDA memcpy Device-to-Host]\n"
        "10.0,10,1,10.0,10.0,10,10,0.0,[CUDA memset]\n"
    )


def test_an_export_without_labels_gets_the_built_in_ones(tmp_path: Path) -> None:
    capture = opened(tmp_path, memcpy(11, 0, 60, 5), memcpy(77, 0, 500, 5), memcpy(10, 0, 40, 5))
    assert rows_of(capture, REPORT) == [
        "60.0,60,1,60.0,60.0,60,60,0.0,[CUDA memcpy Unified Host-to-Device]",
        "40.0,40,1,40.0,40.0,40,40,0.0,[CUDA memcpy Peer-to-Peer]",
    ]
