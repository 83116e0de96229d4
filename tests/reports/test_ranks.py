"""What reports over ranks have in common, and what two GPUs did."""

from pathlib import Path

import pytest
import recorded
from rank_exports import FAST, member, steps, table_over
from report_tables import records_of
from tiny_export import KERNEL, NVTX, call, kernel

from nsyswrap.analysis.ranks.members import places, processes
from nsyswrap.analysis.ranks.waiting import regular
from nsyswrap.api import open_capture
from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.reports import ranks


def test_one_rank_alone_is_compared_with_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only rank 0 was found"):
        ranks.make_job([member(tmp_path, 0, *steps(FAST))])


@pytest.mark.parametrize("name", ranks.NAMES)
@pytest.mark.parametrize("tables", [(NVTX, KERNEL), ()], ids=["no row", "no table"])
def test_what_no_rank_holds_has_to_be_collected(name: str, tables: tuple[str, ...], tmp_path: Path) -> None:
    there = [kernel("gemm", 0, 1)] if name == "rank_steps" else []  # it is about ranges alone
    empty = [table for table in tables if table not in {event.table for event in there}]
    members = [member(tmp_path, number, call("cudaFree", 0, 1), *there, empty=empty) for number in range(2)]
    with pytest.raises(NotInCapture, match=f"{name}: no rank holds ") as caught:
        table_over(members, name)
    assert "(collect with nsyswrap profile --trace cuda,nvtx)" in caught.value.hint


def test_columns_of_times_carry_their_unit() -> None:
    for name in ranks.NAMES:
        report = ranks.find_rank_report(name)
        assert report.schema.name == name
        names = [column.name for column in report.schema.columns]
        assert len(set(names)) == len(names)
        for column in report.schema.columns:
            assert column.help
            assert column.name.endswith("_ns") == (column.unit.value == "ns")


@pytest.mark.parametrize(
    ("times", "of", "ranks_there", "named"),
    [
        (6, 6, 2, True),
        (5, 6, 2, False),
        (4, 4, 2, False),
        (90, 100, 2, True),
        (2, 2, 64, True),
        (51, 100, 2, False),
        (500, 1000, 3, False),  # half is not most
        (501, 1000, 3, True),
        (9, 10, 1, False),  # of a rank alone
    ],
)
def test_how_often_is_too_often(times: int, of: int, ranks_there: int, named: bool) -> None:  # noqa: FBT001
    assert regular(times, of, ranks_there) is named


def test_ranks_are_named_by_their_numbers_and_other_captures_by_their_files(tmp_path: Path) -> None:
    for number in (10, 9):
        (tmp_path / f"rank{number}").mkdir()
    (tmp_path / "other").mkdir()
    captures = [tmp_path / name / "report.sqlite" for name in ("rank10", "rank9")]
    assert [(one.label, one.number) for one in places(captures)] == [("rank 9", 9), ("rank 10", 10)]
    both = [captures[0], tmp_path / "other" / "report.sqlite"]
    assert [(one.label, one.number) for one in places(both)] == [("other", None), ("rank10", None)]


# What two GPUs did


def test_the_straggler_is_named(tmp_path: Path) -> None:
    members = processes(open_capture(recorded.run_folder("ddp/straggler", tmp_path)))
    fast, slow = (one.label for one in members)
    table = table_over(members, "rank_waiting")
    assert table.verdict.startswith(
        f"{slow} was last in 7 of 7 collectives; {fast} waited 242 ms for it, 99.4 % of its GPU time"
    )
    assert table.verdict.endswith(
        "this explains at most 40.5 ms of the wait"
    )  # 92 % of it is in two collectives
    skew = records_of(table_over(members, "rank_skew"))
    extra = next(row for row in skew if row["judged"] == "kernel")
    assert (extra["slowest_rank"], extra["fastest_ns"], extra["instances"]) == (
        slow,
        0,
        12,
    )  # 2 in each of 6 steps
