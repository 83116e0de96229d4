from pathlib import Path

from report_tables import STATISTICS, capture_of, csv_of
from tiny_export import OSRT, on_cpu

REPORT = "osrt_sum"
HEADER = f"Time (%),Total Time (ns),Num Calls,{STATISTICS},Name\n"


def test_os_runtime_calls(tmp_path: Path) -> None:
    calls = [on_cpu(OSRT, "poll", 0, 30), on_cpu(OSRT, "poll", 0, 10), on_cpu(OSRT, "open", 5, 65)]
    other_class = on_cpu(OSRT, "poll", 0, 999, eventClass=3)
    assert csv_of(capture_of(tmp_path, *calls, other_class), REPORT) == (
        f"{HEADER}60.0,60,1,60.0,60.0,60,60,0.0,open\n40.0,40,2,20.0,20.0,10,30,14.1,poll\n"
    )


def test_os_runtime_events_that_are_no_calls_are_no_rows(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, on_cpu(OSRT, "poll", 0, 9, eventClass=3))
    assert capture.report(REPORT).rows() == []
