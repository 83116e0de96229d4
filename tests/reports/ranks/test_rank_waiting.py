import json
import struct
from pathlib import Path
from typing import Any

import pytest
import recorded
from rank_exports import (
    ALL_REDUCE,
    BROADCAST,
    FAST,
    SLOW,
    STEP_NS,
    Step,
    member,
    steps,
    straggler,
    table_over,
)
from report_tables import csv_text, values_of
from tiny_export import Row, call, graph, kernel, nvtx, row

from nsyswrap.analysis.ranks.members import RankCapture, processes
from nsyswrap.api import open_capture
from nsyswrap.capture.selection import parse_selection

REPORT = "rank_waiting"
MS = 1_000_000
HEADER = (
    "rank,collectives,last,gpu_ns,own_ns,communication_ns,waiting_ns,waiting_percent,waiting_med_ns,"
    "late_med_ns,exposed_ns\n"
)


# rank 0  gemm[10 .. 110)  all-reduce[110 ............. 410)   and the same 10 µs later
# rank 1  gemm[10 ............ 310)  all-reduce[310 ... 410)
def test_the_fast_rank_waits_for_the_slow_one(tmp_path: Path) -> None:
    members = [
        member(tmp_path, number, *steps(*[Step(own, 410)] * 2)) for number, own in enumerate((100, 300))
    ]
    # all-reduces of 300 and 100 ns: rank 0 waits 200 of its 400 ns in each, rank 1 comes 200 ns later
    assert csv_text(table_over(members, REPORT)) == (
        f"{HEADER}0,2,0,800,200,600,400,50.0,200.0,0.0,400\n1,2,2,800,600,200,0,0.0,0.0,200.0,0\n"
    )


def test_who_waits_for_whom(tmp_path: Path) -> None:
    table = table_over(straggler(tmp_path), REPORT)
    # All-reduces last 290 ns on rank 0 and 90 on rank 1, which comes 200 ns later, and 5 by the clocks.
    assert table.rows() == [
        (0, 6, 0, 6 * 390, 600, 6 * 290, 1200, pytest.approx(1200 / 23.4), 200.0, 0.0, 1200),
        (1, 6, 6, 6 * 390, 1800, 6 * 90, 0, 0.0, 0.0, 205.0, 0),
    ]
    assert table.verdict == (
        "rank 1 was last in 6 of 6 collectives; rank 0 waited 1.20 µs for it, 51.3 % of its GPU time, "
        "because rank 1's own GPU work takes 1.80 µs against 600 ns of rank 0"
    )
    [note] = table.notes
    assert note == (
        "clocks aligned by session start; ends of a collective: 5 ns apart (median; at most 5 ns); "
        "arrival times have this accuracy, waiting times do not depend on it"
    )


def test_who_comes_late_without_more_to_do_on_the_gpu(tmp_path: Path) -> None:
    late = [row for row in steps(*[FAST] * 6) if row.cells.get("demangledName") != ALL_REDUCE]
    late += [
        kernel(ALL_REDUCE, number * STEP_NS + 310, number * STEP_NS + 400, 2 * number + 2)
        for number in range(6)
    ]
    members = [member(tmp_path, 0, *steps(*[FAST] * 6)), member(tmp_path, 1, *late)]
    said = table_over(members, REPORT).verdict
    assert said.endswith(" of rank 0, which points to its host code")


def test_who_comes_late_out_of_other_communication(tmp_path: Path) -> None:
    """Rank 1 is in a broadcast of 200 ns before it comes: that is no sign of its host code."""
    late = [row for row in steps(*[FAST] * 6) if row.cells.get("demangledName") != ALL_REDUCE]
    for at in range(0, 6 * STEP_NS, STEP_NS):
        late += [kernel(BROADCAST, at + 110, at + 310, 0), kernel(ALL_REDUCE, at + 310, at + 400, 0)]
    members = [member(tmp_path, 0, *steps(*[FAST] * 6)), member(tmp_path, 1, *late)]
    assert table_over(members, REPORT).verdict.endswith(
        "but rank 1's own GPU work takes 600 ns against 600 ns of rank 0; rank 1 was 1.20 µs longer in other "
        "communication, where it may have waited itself"
    )


def test_a_job_in_which_the_ranks_take_turns_names_nobody(tmp_path: Path) -> None:
    members = [member(tmp_path, 0, *steps(*[FAST, SLOW] * 4)), member(tmp_path, 1, *steps(*[SLOW, FAST] * 4))]
    verdict = table_over(members, REPORT).verdict
    assert verdict.startswith("no single rank is regularly last in the 8 collectives;")
    assert "rank 0" not in verdict
    assert "rank 1" not in verdict


def test_waiting_that_is_not_worth_it_names_nobody(tmp_path: Path) -> None:
    members = [
        member(tmp_path, 0, *steps(*[Step(1000, 2000)] * 8)),
        member(tmp_path, 1, *steps(*[Step(1001, 2000)] * 8)),
    ]
    assert table_over(members, REPORT).verdict == (
        "no rank delays the others; waiting takes at most 0.1 % of a rank's GPU time"
    )


def test_ranks_that_come_together_are_both_not_the_last(tmp_path: Path) -> None:
    members = [member(tmp_path, number, *steps(FAST, FAST)) for number in range(2)]
    assert values_of(table_over(members, REPORT), "last") == [(0,), (0,)]


def test_without_the_start_of_a_session_there_are_no_arrival_times(tmp_path: Path) -> None:
    members = [member(tmp_path, 0, *steps(FAST)), member(tmp_path, 1, *steps(SLOW, epoch=None))]
    table = table_over(members, REPORT)
    assert values_of(table, "waiting_ns", "late_med_ns") == [(200, None), (0, None)]
    assert table.notes == (
        "no arrival times: some captures lack the start of their session (waiting times do not need it)",
    )


def test_ranks_on_several_hosts_have_several_clocks(tmp_path: Path) -> None:
    members = [member(tmp_path, number, *steps(FAST), host=f"n{number}") for number in range(2)]
    [note] = table_over(members, REPORT).notes
    assert " on 2 hosts with different clocks" in note


def test_collectives_that_a_capture_lacks(tmp_path: Path) -> None:
    members = [member(tmp_path, 0, *steps(*[FAST] * 3)), member(tmp_path, 1, *steps(*[SLOW] * 2))]
    table = table_over(members, REPORT)
    assert values_of(table, "collectives", "waiting_ns") == [(2, 400), (2, 0)]
    assert table.notes[0] == (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL: 2 to 3 per rank; the first 2 are matched; "
        "this is wrong unless the last ones are missing"
    )
    assert table.verdict == (
        "cannot tell which rank delays the others: the ranks have 2 to 3 collectives "
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    )


# rank 0  gemm[0 .. 100)  all-reduce[100 ......... 1100)     its next gemm runs beside the wait
#                                gemm[150 .. 750)
# rank 1  gemm[0 .................. 1000)  all-reduce[1000 .. 1100)
def test_waiting_under_own_kernels_costs_nothing(tmp_path: Path) -> None:
    def rank(number: int, arrives: int, *own: Row) -> RankCapture:
        rows = []
        for at in range(0, 60_000, 10_000):
            rows += [replace_times(one, at) for one in own]
            rows += [kernel(ALL_REDUCE, at + arrives, at + 1100, streamId=9)]
        return member(tmp_path, number, *rows)

    def replace_times(one: Row, at: int) -> Row:
        cells = one.cells
        return Row(one.table, {**cells, "start": cells["start"] + at, "end": cells["end"] + at})  # type: ignore[operator]

    members = [
        rank(0, 100, kernel("gemm", 0, 100), kernel("gemm", 150, 750)),
        rank(1, 1000, kernel("gemm", 0, 1000)),
    ]
    table = table_over(members, REPORT)
    assert values_of(table, "waiting_ns", "exposed_ns") == [(6 * 900, 6 * 300), (0, 0)]
    assert "rank 0 waited 1.80 µs for it, 17.6 % of its GPU time" in table.verdict
    assert table.verdict.endswith(
        "; waiting under a rank's own kernels is not counted: up to 35.3 % of that rank's GPU time"
    )


def test_kernels_that_are_not_at_the_same_time_are_no_collective(tmp_path: Path) -> None:
    """Two communicators in captures that do not tell them apart: the ranks call theirs at their own times."""
    starts = ([0, 10, 20, 30, 40, 50], [0, 13, 17, 36, 41, 58])
    members = [
        member(tmp_path, rank, *(kernel(ALL_REDUCE, ms * MS, ms * MS + 90, ms) for ms in of_rank))
        for rank, of_rank in enumerate(starts)
    ]
    table = table_over(members, REPORT)
    assert table.verdict.startswith("cannot tell which rank delays the others: 6 of 6 collectives")
    assert values_of(table, "collectives", "waiting_ns") == [(0, None), (0, None)]
    assert "possibly several communicators" in table.notes[0]


def test_clocks_of_hosts_that_differ_do_not_matter(tmp_path: Path) -> None:
    members = [
        member(tmp_path, rank, *(kernel(ALL_REDUCE, at + ms * MS, at + ms * MS + 90, ms) for ms in range(6)))
        for rank, at in enumerate((0, 12345 * MS))
    ]
    assert table_over(members, REPORT).verdict.startswith("no rank delays the others")


def payload(form: str, communicator: int) -> dict[str, Any]:
    if form == "json":
        return {"jsonText": json.dumps({"NCCL communicator ID": communicator, "Message size [bytes]": 4096})}
    return {"binaryData": struct.pack("<4I4Q", 3, 0, 7, 0, 16, 48, 4096, communicator)}


@pytest.mark.parametrize("form", ["json", "blob"])
def test_communicators_are_told_apart_where_the_capture_has_them(tmp_path: Path, form: str) -> None:
    """Ranks 0 and 1 share a communicator, ranks 2 and 3 another; rank 1 and rank 3 are late in theirs."""

    def rank(number: int, communicator: int, starts: int, ends: int) -> RankCapture:
        rows = [
            row("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=3, schemaId=7, name="NCCL communicator ID", offset=8)
        ]
        for k in range(6):
            at = k * MS
            rows += [
                nvtx("ncclAllReduce", at, at + 10, domainId=3, **payload(form, communicator)),
                call("cudaLaunchKernel", at + 1, at + 9, k + 1),
                kernel(ALL_REDUCE, at + starts, at + ends, k + 1),
            ]
        return member(tmp_path, number, *rows)

    large = 12715772615376301750
    members = [rank(0, 77, 10, 100), rank(1, 77, 90, 100), rank(2, large, 10, 50), rank(3, large, 40, 50)]
    assert values_of(table_over(members, REPORT), "collectives", "last", "waiting_ns") == [
        (6, 0, 480),
        (6, 6, 0),
        (6, 0, 180),
        (6, 6, 0),
    ]


def test_a_communicator_of_ranks_that_were_not_profiled_casts_no_doubt(tmp_path: Path) -> None:
    extra = [
        nvtx("ncclAllReduce", 5000, 5010, domainId=3, **payload("json", 5)),
        call("cudaLaunchKernel", 5001, 5009, 99),
        kernel(ALL_REDUCE, 5010, 5020, 99),
    ]
    members = [member(tmp_path, 0, *steps(*[FAST] * 6), *extra), member(tmp_path, 1, *steps(*[SLOW] * 6))]
    table = table_over(members, REPORT)
    assert table.verdict.startswith("rank 1 was last in 6 of 6 collectives")
    assert "collectives on only one rank are not matched" in table.notes[0]


def test_what_does_not_end_together_is_communication_without_waiting(tmp_path: Path) -> None:
    members = [
        member(tmp_path, 0, *steps(FAST), kernel(BROADCAST, 5000, 5010)),
        member(tmp_path, 1, *steps(SLOW), kernel(BROADCAST, 5000, 5500)),
    ]
    found = values_of(table_over(members, REPORT), "collectives", "communication_ns")
    assert found == [(1, 300), (1, 590)]


def test_streams_are_matched_by_their_first_collective(tmp_path: Path) -> None:
    def rank(number: int, streams: tuple[int, int], durations: tuple[int, int]) -> RankCapture:
        kernels = [
            kernel(ALL_REDUCE, 100 * k, 100 * k + lasting, k, streamId=stream)
            for k, (stream, lasting) in enumerate(zip(streams, durations, strict=True))
        ]
        return member(tmp_path, number, *kernels)

    # In the order of their starts the second of rank 1 would meet the first of rank 0.
    members = [rank(0, (7, 9), (50, 10)), rank(1, (21, 30), (40, 30))]
    assert values_of(table_over(members, REPORT), "waiting_ns") == [(10,), (20,)]


def test_graphs_may_hide_collectives(tmp_path: Path) -> None:
    members = [member(tmp_path, number, *steps(FAST), graph(0, 5, 99)) for number in range(2)]
    assert "whole-graph executions (2) hide their kernels" in table_over(members, REPORT).notes[0]


def test_a_selection_leaves_out_collectives_and_keeps_the_matches(tmp_path: Path) -> None:
    part = [
        type(one)(
            one.label,
            one.number,
            one.capture.viewed(selection=parse_selection(f"{2 * STEP_NS}ns/{4 * STEP_NS}ns")),
        )
        for one in straggler(tmp_path)
    ]
    table = table_over(part, REPORT)
    assert values_of(table, "collectives", "waiting_ns", "own_ns") == [(2, 400, 200), (2, 0, 600)]
    assert "whole rows" in table.selection


def test_ranks_without_collectives_have_nothing_to_wait_for(tmp_path: Path) -> None:
    members = [member(tmp_path, number, kernel("gemm", 10, 110)) for number in range(2)]
    table = table_over(members, REPORT)
    assert csv_text(table) == f"{HEADER}0,0,0,100,100,0,0,0.0,,,0\n1,0,0,100,100,0,0,0.0,,,0\n"
    assert table.notes == ("no communication kernels: waiting times are unknown",)


def test_of_two_that_do_the_same_none_is_named(tmp_path: Path) -> None:
    members = processes(open_capture(recorded.run_folder("ddp/even", tmp_path)))
    verdict = table_over(members, REPORT).verdict
    assert "no single rank is regularly last in the 7 collectives" in verdict
    assert not any(one.label in verdict for one in members)
