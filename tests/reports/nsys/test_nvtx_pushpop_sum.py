from pathlib import Path

import pytest
from report_tables import STATISTICS, csv_of
from tiny_export import nvtx, opened

from nsyswrap.base.units import Rounding

REPORT = "nvtx_pushpop_sum"
HEADER = f"Time (%),Total Time (ns),Instances,{STATISTICS},Range\n"


@pytest.mark.parametrize(("rounding", "mark"), [("2025", ":"), ("legacy", "")])
def test_push_pop_ranges_by_name(rounding: Rounding, mark: str, tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("step", 0, 30), nvtx("step", 40, 50, eventType=70), nvtx("load", 50, 80)),
        *(nvtx("job", 0, 500, eventType=60), nvtx("step", 0, 500, eventType=71)),  # start/end
    )
    # 40 and 30 of 70 ns
    assert csv_of(capture, REPORT, rounding) == (
        f"{HEADER}57.1,40,2,20.0,20.0,10,30,14.1,{mark}step\n42.9,30,1,30.0,30.0,30,30,0.0,{mark}load\n"
    )
