from pathlib import Path

import pytest
from report_tables import STATISTICS, csv_of
from tiny_export import nvtx, opened

from nsyswrap.base.units import Rounding

REPORT = "nvtx_startend_sum"
HEADER = f"Time (%),Total Time (ns),Instances,{STATISTICS},Range\n"


@pytest.mark.parametrize(("rounding", "mark"), [("2025", ":"), ("legacy", "")])
def test_start_end_ranges_by_name(rounding: Rounding, mark: str, tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("job", 0, 60, eventType=60), nvtx("job", 10, 30, eventType=71)),
        nvtx("other", 0, 20, eventType=60),
        *(nvtx("job", 0, 500), nvtx("step", 0, 500, eventType=70)),  # push/pop
    )
    # 80 and 20 of 100 ns; the deviation of 60 and 20 is 40 / √2
    assert csv_of(capture, REPORT, rounding) == (
        f"{HEADER}80.0,80,2,40.0,40.0,20,60,28.3,{mark}job\n20.0,20,1,20.0,20.0,20,20,0.0,{mark}other\n"
    )
