from pathlib import Path

from report_tables import STATISTICS, csv_of
from tiny_export import call, kernel, nvtx, opened

REPORT = "nvtx_kern_sum"
HEADER = f"NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),{STATISTICS},Kernel Name\n"


def test_kernels_inside_and_outside_of_a_range(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        nvtx("step", 0, 50),
        *(call("launch", 30, 35, 1), kernel("k", 200, 210, 1)),
        *(call("launch", 40, 45, 2), kernel("k", 220, 250, 2)),
        *(call("launch", 46, 47, 3), kernel("a", 260, 300, 3)),
        *(call("launch", 60, 65, 4), kernel("k", 300, 330, 4)),
    )
    # in the step k takes 10 and 30 ns, a 40: of equal total they stand by name
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        ",,100,100,0,1,30,30.0,30.0,30,30,0.0,k\n"
        ":step,PushPop,100,100,1,1,40,40.0,40.0,40,40,0.0,a\n"
        ":step,PushPop,100,100,1,2,40,20.0,20.0,10,30,14.1,k\n"
    )


def test_kernels_by_range(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("step", 0, 50), nvtx("step", 10, 40), nvtx("free", 20, 90, eventType=60)),
        *(call("launch", 30, 35, 1), kernel("k", 200, 210, 1)),
        *(call("launch", 60, 65, 2), kernel("k", 300, 330, 2)),
        *(call("launch", 95, 99, 3), kernel("k", 400, 450, 3)),
        kernel("lost", 500, 501, 9),
    )
    rows = [(*row[:7], row[-1]) for row in capture.report(REPORT).rows()]
    assert rows == [
        (None, None, None, None, 0, 1, 1, "lost"),
        (None, None, 100, 100, 0, 1, 50, "k"),
        (":free", "StartEnd", 100, 100, 1, 2, 40, "k"),
        (":step", "PushPop", 100, 100, 2, 1, 20, "k"),  # once for each of the two
    ]


def test_kernels_of_a_part_without_ranges_stand_outside_of_all(tmp_path: Path) -> None:
    launched = [call("launch", 30, 35, 1), kernel("k", 30, 40, 1)]
    part = opened(tmp_path, *launched, nvtx("step", 80, 90)).select(time="20/50")
    assert [row[:6] for row in part.report(REPORT).rows()] == [(None, None, 100, 100, 0, 1)]
