from pathlib import Path

from report_tables import csv_of
from tiny_export import memcpy, memset, opened

REPORT = "cuda_gpu_mem_size_sum"
HEADER = "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n"
COPIES = [memcpy(1, 0, 30, 1_500_000), memcpy(2, 0, 30, 999), memcpy(1, 0, 30, 500_000), memset(0, 10, 499)]


def test_memory_operations_by_size(tmp_path: Path) -> None:
    assert csv_of(opened(tmp_path, *COPIES), REPORT) == (
        f"{HEADER}"
        "2.000,2,1.000,1.000,0.500,1.500,0.707,[CUDA memcpy Host-to-Device]\n"
        "0.001,1,0.001,0.001,0.001,0.001,0.000,[CUDA memcpy Device-to-Host]\n"
        "0.000,1,0.000,0.000,0.000,0.000,0.000,[CUDA memset]\n"
    )
