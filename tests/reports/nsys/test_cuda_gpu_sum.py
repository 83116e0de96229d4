from pathlib import Path

from report_tables import STATISTICS, csv_of
from tiny_export import kernel, memcpy, memset, opened

REPORT = "cuda_gpu_sum"
HEADER = f"Time (%),Total Time (ns),Instances,{STATISTICS},Category,Operation\n"


def test_kernels_and_memory_operations_together(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        memset(0, 25, 8),
        kernel("b", 0, 25),
        kernel("a", 0, 10),
        kernel("a", 30, 45),
        memcpy(1, 0, 25, 8),
    )
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "25.0,25,1,25.0,25.0,25,25,0.0,MEMORY_OPER,[CUDA memcpy Host-to-Device]\n"
        "25.0,25,1,25.0,25.0,25,25,0.0,MEMORY_OPER,[CUDA memset]\n"
        "25.0,25,2,12.5,12.5,10,15,3.5,CUDA_KERNEL,a\n"
        "25.0,25,1,25.0,25.0,25,25,0.0,CUDA_KERNEL,b\n"
    )
