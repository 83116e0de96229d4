"""Reports over ranks, worked out on paper and on what two GPUs did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import recorded
from rank_exports import ALL_REDUCE, BROADCAST, STEP_NS, Step, member, steps
from tiny_export import call, graph, kernel, nvtx

from nsyswrap.analysis.ranks.members import processes
from nsyswrap.analysis.ranks.waiting import regular
from nsyswrap.api import open_capture
from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.capture.selection import chosen
from nsyswrap.reports import ranks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nsyswrap.analysis.ranks.members import Member
    from nsyswrap.reports.table import Table

# One computes 100 ns, the other 300; their all-reduces end together: the fast one waits 200 ns in each step.
FAST, SLOW = Step(100, 400), Step(300, 400)


def made(members: Sequence[Member], name: str) -> Table:
    return ranks.make(ranks.make_job(members), name)


def rows(table: Table) -> list[dict[str, Any]]:
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows()]


@pytest.fixture
def straggler(tmp_path: Path) -> list[Member]:
    """Six steps; the session of rank 1 began 5 ns after that of rank 0."""
    return [
        member(tmp_path, 0, *steps(*[FAST] * 6, epoch=1000)),
        member(tmp_path, 1, *steps(*[SLOW] * 6, epoch=1005)),
    ]


# rank_waiting


def test_who_waits_for_whom(straggler: list[Member]) -> None:
    table = made(straggler, "rank_waiting")
    # All-reduces last 290 ns on rank 0 and 90 on rank 1, which comes 200 ns later, and 5 by the clocks.
    assert table.rows() == [
        (0, 6, 0, 6 * 390, 600, 6 * 290, 1200, pytest.approx(1200 / 23.4), 200.0, 0.0),
        (1, 6, 6, 6 * 390, 1800, 6 * 90, 0, 0.0, 0.0, 205.0),
    ]
    assert table.verdict == (
        "rank 1 was last in 6 of 6 collectives; rank 0 waited 1.20 µs for it, 51.3 % of its GPU time; "
        "its own work on the GPU takes 1.80 µs, that of the others 600 ns (median): that is why"
    )
    [note] = table.notes
    assert note == (
        "aligned on the sessions' epochs: the ends of a collective lie 5 ns apart (median; at most 5 ns); "
        "arrival times are known as well as that, waiting needs no common clock"
    )


def test_who_comes_late_without_more_to_do_on_the_gpu(tmp_path: Path) -> None:
    late = [row for row in steps(*[FAST] * 6) if row.cells.get("demangledName") != ALL_REDUCE]
    late += [
        kernel(ALL_REDUCE, number * STEP_NS + 310, number * STEP_NS + 400, 2 * number + 2)
        for number in range(6)
    ]
    members = [member(tmp_path, 0, *steps(*[FAST] * 6)), member(tmp_path, 1, *late)]
    assert made(members, "rank_waiting").verdict.endswith("no more, which points to its CPU")


def test_a_job_in_which_the_ranks_take_turns_names_nobody(tmp_path: Path) -> None:
    members = [
        member(tmp_path, 0, *steps(*[FAST, SLOW] * 4)),
        member(tmp_path, 1, *steps(*[SLOW, FAST] * 4)),
    ]
    verdict = made(members, "rank_waiting").verdict
    assert verdict.startswith("no rank is regularly the last of 8 collectives, the ranks take turns")
    assert "rank 0" not in verdict
    assert "rank 1" not in verdict


def test_waiting_that_is_not_worth_it_names_nobody(tmp_path: Path) -> None:
    members = [
        member(tmp_path, 0, *steps(*[Step(1000, 2000)] * 8)),
        member(tmp_path, 1, *steps(*[Step(1001, 2000)] * 8)),
    ]
    assert made(members, "rank_waiting").verdict == (
        "no rank holds the others up: waiting takes at most 0.1 % of a rank's GPU time"
    )


def test_ranks_that_come_together_are_both_not_the_last(tmp_path: Path) -> None:
    members = [member(tmp_path, number, *steps(FAST, FAST)) for number in range(2)]
    assert [row["last"] for row in rows(made(members, "rank_waiting"))] == [0, 0]


def test_without_the_start_of_a_session_there_are_no_arrival_times(tmp_path: Path) -> None:
    members = [member(tmp_path, 0, *steps(FAST)), member(tmp_path, 1, *steps(SLOW, epoch=None))]
    table = made(members, "rank_waiting")
    assert [(row["waiting_ns"], row["late_med_ns"]) for row in rows(table)] == [(200, None), (0, None)]
    assert table.notes == (
        "not every capture says when its session began: no arrival times (waiting needs no common clock)",
    )


def test_ranks_on_several_hosts_have_several_clocks(tmp_path: Path) -> None:
    members = [member(tmp_path, number, *steps(FAST), host=f"n{number}") for number in range(2)]
    [note] = made(members, "rank_waiting").notes
    assert "on 2 hosts, whose clocks differ" in note


def test_collectives_that_a_capture_lacks(tmp_path: Path) -> None:
    members = [member(tmp_path, 0, *steps(*[FAST] * 3)), member(tmp_path, 1, *steps(*[SLOW] * 2))]
    table = made(members, "rank_waiting")
    assert [(row["collectives"], row["waiting_ns"]) for row in rows(table)] == [(2, 400), (2, 0)]
    assert table.notes[0] == (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL: 2 to 3 per rank; the first 2 are matched, "
        "wrongly where not the last ones are missing"
    )


def test_what_does_not_end_together_is_communication_without_waiting(tmp_path: Path) -> None:
    members = [
        member(tmp_path, 0, *steps(FAST), kernel(BROADCAST, 5000, 5010)),
        member(tmp_path, 1, *steps(SLOW), kernel(BROADCAST, 5000, 5500)),
    ]
    found = [(row["collectives"], row["communication_ns"]) for row in rows(made(members, "rank_waiting"))]
    assert found == [(1, 300), (1, 590)]


def test_streams_are_matched_by_their_first_collective(tmp_path: Path) -> None:
    def rank(number: int, streams: tuple[int, int], durations: tuple[int, int]) -> Member:
        kernels = [
            kernel(ALL_REDUCE, 100 * k, 100 * k + lasting, k, streamId=stream)
            for k, (stream, lasting) in enumerate(zip(streams, durations, strict=True))
        ]
        return member(tmp_path, number, *kernels)

    # In the order of their starts the second of rank 1 would meet the first of rank 0.
    members = [rank(0, (7, 9), (50, 10)), rank(1, (21, 30), (40, 30))]
    assert [row["waiting_ns"] for row in rows(made(members, "rank_waiting"))] == [10, 20]


def test_graphs_may_hide_collectives(tmp_path: Path) -> None:
    members = [member(tmp_path, number, *steps(FAST), graph(0, 5, 99)) for number in range(2)]
    assert "2 whole-graph executions hide their kernels" in made(members, "rank_waiting").notes[0]


def test_a_selection_leaves_out_collectives_and_keeps_the_matches(straggler: list[Member]) -> None:
    part = [
        type(one)(
            one.label, one.number, one.capture.viewed(selection=chosen(f"{2 * STEP_NS}ns/{4 * STEP_NS}ns"))
        )
        for one in straggler
    ]
    table = made(part, "rank_waiting")
    assert [(row["collectives"], row["waiting_ns"], row["own_ns"]) for row in rows(table)] == [
        (2, 400, 200),
        (2, 0, 600),
    ]
    assert "whole rows" in table.selection


# rank_skew and rank_steps


def test_the_slowest_rank_of_ranges_and_kernels(straggler: list[Member]) -> None:
    table = made(straggler, "rank_skew")
    # of 6 steps: 300 and 100 ns each
    shared = (1, 1800, 0, 600, 1200, 100.0, 6, 6)
    assert table.rows() == [("range (GPU)", *shared, 1200, "step"), ("kernel", *shared, None, "gemm")]
    assert table.verdict.startswith("rank 1 was last in 6 of 6 collectives")


def test_every_step(tmp_path: Path) -> None:
    members = [member(tmp_path, 0, *steps(FAST, SLOW)), member(tmp_path, 1, *steps(SLOW, SLOW))]
    lasting = float(STEP_NS - 1)
    assert made(members, "rank_steps").rows() == [
        ("step", 0, "range (GPU)", 1, 300, 0, 100, 200, 100.0, lasting, 200),
        ("step", 1, "range (GPU)", 0, 300, 0, 300, 0, 0.0, lasting, 0),
    ]


def test_ranges_without_gpu_work_are_judged_by_their_duration(tmp_path: Path) -> None:
    members = [member(tmp_path, number, nvtx("load", 0, 100 * (number + 1))) for number in range(3)]
    assert made(members, "rank_skew").rows() == [
        ("range (CPU)", 2, 300, 0, 100, 200, 100.0, 1, 1, 0, "load"),
    ]


def test_what_other_threads_launch_meanwhile_belongs_to_a_step(tmp_path: Path) -> None:
    backward = [call("cudaLaunchKernel", 50, 51, 77, tid=101), kernel("backward", 60, 90, 77)]
    members = [member(tmp_path, 0, *steps(FAST), *backward), member(tmp_path, 1, *steps(FAST))]
    [step, *_] = rows(made(members, "rank_skew"))
    assert (step["slowest_rank"], step["slowest_ns"], step["fastest_ns"]) == (0, 130, 100)


def test_a_kernel_that_one_rank_alone_has(tmp_path: Path) -> None:
    members = [
        member(tmp_path, 0, *steps(FAST), kernel("extra", 700, 750)),
        member(tmp_path, 1, *steps(FAST)),
    ]
    [extra] = [row for row in rows(made(members, "rank_skew")) if row["name"] == "extra"]
    assert [extra[name] for name in ("slowest_rank", "slowest_ns", "fastest_rank", "fastest_ns")] == [
        0,
        50,
        1,
        0,
    ]
    assert (extra["instances"], extra["slowest_in"]) == (1, None)


def test_ranges_that_do_not_match_are_told(tmp_path: Path) -> None:
    members = [
        member(tmp_path, 0, *steps(FAST, FAST), nvtx("save", 0, 1)),
        member(tmp_path, 1, *steps(FAST)),
    ]
    table = made(members, "rank_steps")
    assert len(table) == 1
    assert table.notes[-2:] == (
        "range names that one rank alone has, matched with nothing: 1",
        "not as often on every rank: range 'step'; the first of each are matched",
    )


def test_what_ranks_lack_is_told(tmp_path: Path) -> None:
    members = [member(tmp_path, number, nvtx("a", 0, 1)) for number in range(2)]
    with pytest.raises(NotInCapture, match="rank_waiting: no rank holds kernels"):
        made(members, "rank_waiting")


def test_one_rank_alone_is_compared_with_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only rank 0 is there"):
        ranks.make_job([member(tmp_path, 0, *steps(FAST))])


def test_columns_of_times_carry_their_unit() -> None:
    for name in ranks.NAMES:
        report = ranks.find(name)
        assert report.name == name
        names = [column.name for column in report.columns]
        assert len(set(names)) == len(names)
        for column in report.columns:
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
    ],
)
def test_how_often_is_too_often(times: int, of: int, ranks_there: int, named: bool) -> None:  # noqa: FBT001
    assert regular(times, of, ranks_there) is named


# What two GPUs did


def of_processes(variant: str, scratch: Path) -> list[Member]:
    return processes(open_capture(recorded.run_folder(f"ddp/{variant}", scratch)))


def test_the_straggler_is_named(tmp_path: Path) -> None:
    members = of_processes("straggler", tmp_path)
    fast, slow = (one.label for one in members)
    table = made(members, "rank_waiting")
    assert table.verdict.startswith(
        f"{slow} was last in 7 of 7 collectives; {fast} waited 242 ms for it, 99.4 % of its GPU time"
    )
    assert table.verdict.endswith("at most 40.5 ms of that wait")  # 92 % of it is in two collectives
    skew = rows(made(members, "rank_skew"))
    extra = next(row for row in skew if row["judged"] == "kernel")
    assert (extra["slowest_rank"], extra["fastest_ns"], extra["instances"]) == (
        slow,
        0,
        12,
    )  # 2 in each of 6 steps


def test_of_two_that_do_the_same_none_is_named(tmp_path: Path) -> None:
    members = of_processes("even", tmp_path)
    verdict = made(members, "rank_waiting").verdict
    assert "take turns" in verdict
    assert not any(one.label in verdict for one in members)
