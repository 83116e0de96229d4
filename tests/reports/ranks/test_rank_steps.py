from pathlib import Path

from rank_exports import FAST, SLOW, member, steps, table_over
from report_tables import csv_text
from tiny_export import nvtx

REPORT = "rank_steps"
HEADER = (
    "range,occurrence,judged,slowest_rank,slowest_ns,fastest_rank,fastest_ns,skew_ns,skew_percent,"
    "range_med_ns,waiting_ns\n"
)


def test_every_step(tmp_path: Path) -> None:
    members = [member(tmp_path, 0, *steps(FAST, SLOW)), member(tmp_path, 1, *steps(SLOW, SLOW))]
    # of 100 and 300 ns the median is 200; of equals the first is named; each range lasts 9999 ns
    assert csv_text(table_over(members, REPORT)) == (
        f"{HEADER}"
        "step,0,range (GPU),1,300,0,100,200,100.0,9999.0,200\n"
        "step,1,range (GPU),0,300,0,300,0,0.0,9999.0,0\n"
    )


def test_ranges_that_do_not_match_are_told(tmp_path: Path) -> None:
    members = [member(tmp_path, 0, *steps(FAST, FAST), nvtx("save", 0, 1)), member(tmp_path, 1, *steps(FAST))]
    table = table_over(members, REPORT)
    assert len(table) == 1
    assert table.notes[-2:] == (
        "range names on only one rank are not matched: 1",
        "range 'step': the number of instances differs between ranks; the first ones are matched",
    )


def test_ranges_that_one_rank_alone_has_make_no_row(tmp_path: Path) -> None:
    members = [member(tmp_path, number, nvtx(name, 0, 10)) for number, name in enumerate("ab")]
    assert csv_text(table_over(members, REPORT)) == HEADER
