from pathlib import Path

from report_tables import STATISTICS, capture_of, csv_of
from tiny_export import OPENMP, on_cpu

REPORT = "openmp_sum"
HEADER = f"Time (%),Total Time (ns),Count,{STATISTICS},Name\n"


def test_an_openmp_name_in_two_tables_is_two_rows(tmp_path: Path) -> None:
    other = "OPENMP_EVENT_KIND_TASK"
    events = [on_cpu(OPENMP, "wait", 0, 10), on_cpu(other, "wait", 0, 30), on_cpu(OPENMP, "wait", 0, 50)]
    assert csv_of(capture_of(tmp_path, *events), REPORT) == (
        f"{HEADER}66.7,60,2,30.0,30.0,10,50,28.3,wait\n33.3,30,1,30.0,30.0,30,30,0.0,wait\n"
    )
