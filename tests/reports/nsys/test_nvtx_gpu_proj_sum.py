from pathlib import Path

from report_tables import csv_of
from tiny_export import call, kernel, memcpy, nvtx, opened

REPORT = "nvtx_gpu_proj_sum"
HEADER = (
    "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Proj Med (ns),"
    "Proj Min (ns),Proj Max (ns),Proj StdDev (ns),Total GPU Ops,Avg GPU Ops,Avg Range Lvl,Avg Num Child\n"
)


# CPU  outer[0 ........................................ 100)
#        inner[10 .... 30)   L2[40,50)   inner[60 ... 80)
#          L1[11,20)                        L3[61,70)
# GPU  k[200,210)  k[220,225)  copy[300,340)  k[310,330)
def test_ranges_by_what_was_launched_in_them(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("outer", 0, 100), nvtx("inner", 10, 30), nvtx("inner", 60, 80), nvtx("idle", 90, 95)),
        *(call("cudaGraphLaunch", 11, 20, 1), kernel("k", 200, 210, 1), kernel("k", 220, 225, 1)),
        *(call("cudaMemcpyAsync", 40, 50, 2), memcpy(1, 300, 340, 8, correlationId=2)),
        *(call("cudaLaunchKernel", 61, 70, 3), kernel("k", 310, 330, 3)),
    )
    # outer from 200 to 340; inner from 200 to 225 and from 310 to 330: 3.5355 is 5 / √2
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        ":outer,PushPop,140,100,1,140.0,140.0,140,140,0.0,3,3.0,0.0,2.0\n"
        ":inner,PushPop,45,40,2,22.5,22.5,20,25,3.5,2,1.0,1.0,0.0\n"
    )


def test_ranges_that_launch_nothing_have_no_row(tmp_path: Path) -> None:
    rows = [nvtx("idle", 0, 50), call("launch", 60, 65, 1), kernel("k", 200, 210, 1)]
    assert csv_of(opened(tmp_path, *rows), REPORT) == HEADER
