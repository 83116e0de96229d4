from pathlib import Path

from report_tables import csv_of, values_of
from tiny_export import call, kernel, memcpy, nvtx, opened

REPORT = "nvtx_gpu_proj_trace"
HEADER = (
    "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,PID,TID,"
    "NumGPUOps,Lvl,NumChild,RangeId,ParentId,RangeStack\n"
)


def test_ranges_in_order_of_what_they_launched(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("outer", 0, 100), nvtx("inner", 10, 30), nvtx("job", 35, 55, eventType=60)),
        nvtx("idle", 70, 90),
        *(call("cudaGraphLaunch", 11, 20, 1), kernel("k", 200, 210, 1), kernel("k", 230, 250, 1)),
        *(call("cudaMemcpyAsync", 41, 50, 2), memcpy(1, 300, 340, 8, correlationId=2)),
    )
    # projected from the first operation's start to the last one's end; a graph is one operation
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        ":outer,200,140,0,100,PushPop,100,100,2,0,2,1,,:1\n"
        ":inner,200,50,10,20,PushPop,100,100,1,1,0,2,1,:1:2\n"
        ":job,300,40,35,20,StartEnd,100,100,1,1,0,3,1,:1:3\n"
    )


def test_a_range_without_a_name_is_projected_only_as_a_child(tmp_path: Path) -> None:
    launched = [call("launch", 12, 13, 1), kernel("k", 30, 40, 1)]
    capture = opened(tmp_path, nvtx("outer", 0, 100), nvtx(None, 10, 20), *launched).viewed(rounding="legacy")
    trace = capture.report(REPORT)
    assert values_of(trace, "name", "children") == [("outer", 1)]
    named = capture.report(REPORT, rounding="2025")
    assert values_of(named, "name") == [(":outer",), (":",)]


def test_ranges_that_launch_nothing_have_no_row(tmp_path: Path) -> None:
    rows = [nvtx("idle", 0, 50), call("launch", 60, 65, 1), kernel("k", 200, 210, 1)]
    assert csv_of(opened(tmp_path, *rows), REPORT) == HEADER
