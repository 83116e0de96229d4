from pathlib import Path

from report_tables import STATISTICS, csv_of
from tiny_export import kernel, opened

REPORT = "cuda_gpu_kern_gb_sum"
HEADER = f"Time (%),Total Time (ns),Instances,{STATISTICS},GridXYZ,BlockXYZ,Name\n"


def test_kernels_by_grid_and_block(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        kernel("k", 0, 20, gridX=10, blockX=128),
        kernel("k", 0, 20, gridX=9, blockX=128),
        kernel("k", 0, 30, gridX=10, blockX=32),
        kernel("k", 0, 30, gridX=10, blockX=32),
        kernel("a", 0, 20, gridX=100_000, blockZ=64),
    )
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "50.0,60,2,30.0,30.0,30,30,0.0,  10    1    1,  32    1    1,k\n"
        "16.7,20,1,20.0,20.0,20,20,0.0,100000    1    1,   1    1   64,a\n"
        "16.7,20,1,20.0,20.0,20,20,0.0,   9    1    1, 128    1    1,k\n"
        "16.7,20,1,20.0,20.0,20,20,0.0,  10    1    1, 128    1    1,k\n"
    )
