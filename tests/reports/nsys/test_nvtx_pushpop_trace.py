from pathlib import Path

from report_tables import csv_of, table_of, values_of
from tiny_export import nvtx, opened

REPORT = "nvtx_pushpop_trace"
HEADER = (
    "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,"
    "ParentId,RangeStack,NameTree\n"
)


def test_a_range_and_the_ranges_inside_it(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("outer", 0, 100), nvtx("inner", 20, 30), nvtx("inner", 40, 60), nvtx("last", 45, 50)),
        nvtx("free", 10, 90, eventType=60),  # start/end: no row
    )
    # 30 of 100 ns in its children, 5 of 20; the ids are rows of the table, from 1
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "0,100,100,30,70,:outer,100,100,0,2,1,,:1,:outer\n"
        "20,30,10,0,10,:inner,100,100,1,0,2,1,:1:2,--:inner\n"
        "40,60,20,5,15,:inner,100,100,1,1,3,1,:1:3,--:inner\n"
        "45,50,5,0,5,:last,100,100,2,0,4,3,:1:3:4,----:last\n"
    )


def test_the_push_pop_trace(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        nvtx("inner", 20, 30),
        nvtx("outer", 0, 100),
        nvtx("free", 10, 90, eventType=60),
        nvtx("inner", 40, 60),
        nvtx("other thread", 20, 30, tid=101),
    )
    assert capture.report(REPORT).rows() == [
        (0, 100, 100, 30, 70, ":outer", 100, 100, 0, 2, 2, None, ":2", ":outer"),
        (20, 30, 10, 0, 10, ":inner", 100, 100, 1, 0, 1, 2, ":2:1", "--:inner"),
        (20, 30, 10, 0, 10, ":other thread", 100, 101, 0, 0, 5, None, ":5", ":other thread"),
        (40, 60, 20, 0, 20, ":inner", 100, 100, 1, 0, 4, 2, ":2:4", "--:inner"),
    ]
    assert values_of(table_of(capture, REPORT, "legacy"), "range_id") == [(2,), (5,), (1,), (4,)]


def test_the_push_pop_trace_says_what_it_leaves_out(tmp_path: Path) -> None:
    twins = [nvtx("a", 10, 20), nvtx("b", 10, 20), nvtx("inside", 12, 13)]
    table = opened(tmp_path, *twins, nvtx("c", 30, 40)).report(REPORT)
    assert values_of(table, "name") == [(":c",)]
    assert table.notes == ("3 ranges omitted, as in nsys: of equal thread and times, or inside such ranges",)


def test_rows_keep_their_numbers_in_a_part(tmp_path: Path) -> None:
    capture = opened(tmp_path, nvtx("a", 0, 10), nvtx("b", 20, 90), nvtx("c", 30, 40))
    part = capture.select(time="25/50").report(REPORT)
    assert values_of(part, "range_stack") == [(":2",), (":2:3",)]
