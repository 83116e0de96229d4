from pathlib import Path

from report_tables import STATISTICS, capture_of, csv_of
from tiny_export import OPENACC, on_cpu

REPORT = "openacc_sum"
HEADER = f"Time (%),Total Time (ns),Num Calls,{STATISTICS},Name\n"


def test_openacc_events_are_told_apart_by_the_line_they_come_from(tmp_path: Path) -> None:
    launch = "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH"
    events = [
        on_cpu(OPENACC, "Wait", 0, 10, srcFile="a.c", lineNo=3),
        on_cpu(launch, "Wait", 0, 30, srcFile="a.c", lineNo=3),
        on_cpu(launch, "Wait", 0, 20, srcFile="a.c", lineNo=4),
        on_cpu(launch, "Wait", 0, 8, srcFile=None, lineNo=4),
        on_cpu(launch, "Wait", 0, 2, srcFile=7, lineNo=4),  # a file that StringIds lacks
    ]
    assert csv_of(capture_of(tmp_path, *events), REPORT) == (
        f"{HEADER}"
        "57.1,40,2,20.0,20.0,10,30,14.1,Wait@a.c:3\n"
        "28.6,20,1,20.0,20.0,20,20,0.0,Wait@a.c:4\n"
        "11.4,8,1,8.0,8.0,8,8,0.0,Wait\n"
        "2.9,2,1,2.0,2.0,2,2,0.0,\n"
    )
