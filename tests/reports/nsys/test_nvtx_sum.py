from pathlib import Path

import pytest
from report_tables import STATISTICS, csv_of, rows_of
from tiny_export import domain, kernel, nvtx, opened

from nsyswrap.base.units import Rounding

REPORT = "nvtx_sum"
HEADER = f"Time (%),Total Time (ns),Instances,{STATISTICS},Style,Range\n"


@pytest.mark.parametrize(("rounding", "mark"), [("2025", ":"), ("legacy", "")])
def test_ranges_by_name_and_style(rounding: Rounding, mark: str, tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("step", 0, 30), nvtx("step", 40, 50), nvtx("step", 0, 60, eventType=60)),
        *(domain("library", 1), nvtx("part", 0, 100, domainId=1)),
        nvtx("a mark", 5, None, eventType=34),
    )
    # 40, 60 and 100 of 200 ns; a name of no domain begins with a colon from 2025 on
    assert csv_of(capture, REPORT, rounding) == (
        f"{HEADER}"
        "50.0,100,1,100.0,100.0,100,100,0.0,PushPop,library:part\n"
        f"30.0,60,1,60.0,60.0,60,60,0.0,StartEnd,{mark}step\n"
        f"20.0,40,2,20.0,20.0,10,30,14.1,PushPop,{mark}step\n"
    )


def test_ranges_of_equal_total_stand_by_name_then_by_style(tmp_path: Path) -> None:
    ranges = [nvtx(name, 0, 10, eventType=kind) for kind in (60, 59) for name in ("b", "a", "B")]
    assert [line.split(",")[-2:] for line in rows_of(opened(tmp_path, *ranges), REPORT)] == [
        *(["PushPop", ":B"], ["StartEnd", ":B"]),
        *(["PushPop", ":a"], ["StartEnd", ":a"]),
        *(["PushPop", ":b"], ["StartEnd", ":b"]),
    ]


def test_marks_are_no_ranges(tmp_path: Path) -> None:
    assert (
        csv_of(opened(tmp_path, nvtx("a mark", 5, None, eventType=34), kernel("k", 0, 5)), REPORT) == HEADER
    )
