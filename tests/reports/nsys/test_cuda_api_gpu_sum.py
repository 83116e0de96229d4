from pathlib import Path

import pytest
from report_tables import STATISTICS, csv_of, rows_of
from tiny_export import Row, call, kernel, memcpy, memset, opened

REPORT = "cuda_api_gpu_sum"
HEADER = f"Time (%),Total Time (ns),Instances,{STATISTICS},Category,Operation\n"


def test_calls_kernels_and_memory_operations_in_one_list(tmp_path: Path) -> None:
    calls = [call("cudaFree_v3020", 0, 10), call("cudaFree_v7000", 0, 30)]  # one name, cut off its version
    capture = opened(tmp_path, *calls, kernel("k", 0, 40), memcpy(1, 0, 15, 8), memset(0, 5, 8))
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "40.0,40,2,20.0,20.0,10,30,14.1,CUDA_API,cudaFree\n"
        "40.0,40,1,40.0,40.0,40,40,0.0,CUDA_KERNEL,k\n"
        "15.0,15,1,15.0,15.0,15,15,0.0,MEMORY_OPER,[CUDA memcpy Host-to-Device]\n"
        "5.0,5,1,5.0,5.0,5,5,0.0,MEMORY_OPER,[CUDA memset]\n"
    )


@pytest.mark.parametrize(("kernel_ns", "category"), [(29, "CUDA_API"), (30, "CUDA_API"), (31, "CUDA_KERNEL")])
def test_what_shares_its_name_counts_with_the_longest(kernel_ns: int, category: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("same", 0, kernel_ns), call("same", 0, 30), call("same", 0, 3))
    [line] = rows_of(capture, REPORT)
    assert line.split(",")[2] == "3"
    assert line.endswith(f",{category},same")


@pytest.mark.parametrize("one", [call("f", 0, 1), kernel("f", 0, 1), memset(0, 1, 1), memcpy(1, 0, 1, 1)])
def test_any_of_them_is_enough(one: Row, tmp_path: Path) -> None:
    assert len(rows_of(opened(tmp_path, one), REPORT)) == 1
