"""advice: what each finding says of captures drawn on paper, and what captures of known faults must show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import recorded
from report_tables import capture_of, csv_of, hint_of, not_collected
from tiny_export import GRAPH, KERNEL, MEMCPY, MEMSET, call, diagnostic, kernel, memcpy, nvtx, opened, row

from nsyswrap.analysis.advice import CHECKS, advise
from nsyswrap.api import open_capture
from nsyswrap.render.formats import text
from nsyswrap.reports import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from conftest import Cli
    from tiny_export import Row

    from nsyswrap.analysis.advice.context import Advice
    from nsyswrap.api import Capture

REPORT = "advice"
HEADER = "finding,at_stake_ns,at_stake_percent,what,evidence,advice,unless,see\n"
# Recorded captures whose faults are known: what has to be found in them, and what must not.
TIMED = {"timed_launch_only", "timed_earlier_work"}
LABELLED: dict[str, tuple[set[str], set[str]]] = {
    "storm/empty": ({"launch_bound"}, {"pageable_copies", "host_bound", "allocating", *TIMED}),
    "storm/busy": ({"few_blocks"}, {"launch_bound", "host_bound", "drained_by_synchronise"}),
    "graphs/eager": ({"launch_bound"}, {"pageable_copies"}),
    "graphs/graph": (set(), {"launch_bound"}),
    "copies/pageable": ({"pageable_copies"}, {"launch_bound", "tiny_copies"}),
    "copies/managed": ({"waiting_for_pages"}, {"pageable_copies", "launch_bound"}),
    "copies/pinned": (set(), {"waiting_for_pages", "pageable_copies", "launch_bound", "tiny_copies"}),
    "overlap/one_stream": ({"copies_not_hidden"}, {"pageable_copies", "launch_bound"}),
    "overlap/four_streams": (set(), {"copies_not_hidden", "pageable_copies", "launch_bound"}),
    "rules/wasteful": ({"host_bound"}, {"launch_bound"}),
    "add/1x1": ({"few_blocks"}, {"launch_bound", "faulting_kernels"}),
    "add/1x256": ({"few_blocks"}, {"launch_bound"}),
    "add/grid": ({"faulting_kernels"}, {"few_blocks", "launch_bound", "pageable_copies"}),
    "add/prefetch": (set(), {"waiting_for_pages", "faulting_kernels", "launch_bound", "pageable_copies"}),
    "add2/both": (set(), {*TIMED, "faulting_kernels"}),
    "add2/second": (set(), TIMED),
    "add2/first": ({"timed_launch_only"}, {"timed_earlier_work"}),
    "add2/none": ({"timed_launch_only"}, {"timed_earlier_work"}),
    "add2_queued/second": ({"timed_earlier_work"}, {"timed_launch_only"}),
    "add2_queued/none": ({"timed_launch_only"}, {"timed_earlier_work"}),
    "events/nosync": ({"timed_launch_only"}, {"timed_earlier_work"}),
    "events/sync": (set(), TIMED),
    "gelu/torch": (set(), TIMED),
}


@pytest.mark.parametrize("name", LABELLED)
def test_a_capture_of_known_faults(name: str, tmp_path: Path) -> None:
    found = {finding.name for finding in advise(open_capture(recorded.run_folder(name, tmp_path)))}
    expected, forbidden = LABELLED[name]
    assert expected <= found
    assert not forbidden & found


def test_every_finding_is_labelled_somewhere_or_drawn_here() -> None:
    labelled = set[str]().union(*(expected for expected, _ in LABELLED.values()))
    drawn = {"drained_by_synchronise", "allocating", "tiny_copies", "communication_not_hidden", "lost_events"}
    assert len(CHECKS) == len(labelled | drawn)


def found_in(capture: Capture) -> dict[str, Advice]:
    return {finding.name: finding for finding in advise(capture)}


# CPU   |L1 |            |L2 |        |L3 |
# GPU         k[10,30)         k[60,70)     k[100,110)
def loop(between: str | None = None) -> list[Row]:
    rows: list[Row] = []
    for i in range(10):
        at = i * 100
        rows += [call("cudaLaunchKernel", at, at + 10, i + 1), kernel("k", at + 10, at + 50, i + 1)]
        if between:
            rows.append(call(between, at + 20, at + 95, 100 + i))
    return rows


def test_one_finding(tmp_path: Path) -> None:
    *rows, _ = loop()
    capture = opened(tmp_path, *rows, kernel("k", 910, 1010, 10))  # the last kernel lasts longer
    # from 10 to 1010; in each of nine gaps from 50 to 110 the host calls nothing until 100
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "host_bound,450,45.0,the GPU waits for the host between launches,"
        "idle for 450 ns while the launching thread was outside of all CUDA calls,"
        '"take host work out of the loop, do it in another thread, or queue more work ahead",'
        '"the program had nothing to compute then, as between requests or while it read its input",'
        "gpu_idle\n"
    )


def test_the_host_did_something_else(tmp_path: Path) -> None:
    finding = found_in(opened(tmp_path, *loop()))["host_bound"]
    assert finding.potential_ns == 9 * 50  # each gap from 50 to the next launch at 100
    assert "450 ns" in finding.evidence


def test_the_host_waited_until_the_gpu_was_idle(tmp_path: Path) -> None:
    found = found_in(opened(tmp_path, *loop("cudaDeviceSynchronize")))
    # Per gap [50, 110): 45 until the wait returns, 5 outside of calls, 10 in the launch.
    assert found["drained_by_synchronise"].potential_ns == 9 * (45 + 10)
    assert "follow a synchronise: 9;" in found["drained_by_synchronise"].evidence
    assert "allocating" not in found


def test_memory_was_freed_while_the_gpu_waited(tmp_path: Path) -> None:
    found = found_in(opened(tmp_path, *loop("cudaFree")))
    assert found["allocating"].potential_ns == 9 * 45
    assert "drained_by_synchronise" not in found


def test_a_copy_that_a_window_cuts_has_the_bytes_of_its_time(tmp_path: Path) -> None:
    # 1 GB in 100 us, of which the window has the last 10
    copied = memcpy(1, 0, 100_000, 10**9, srcKind=0, dstKind=2)
    part = opened(tmp_path, copied).select(time="90us/100us", clip=True)
    assert found_in(part)["pageable_copies"].evidence == "copies: 1, of 100 MB in 10.0 µs"


def test_many_copies_that_are_shorter_than_their_calls(tmp_path: Path) -> None:
    rows = []
    for i in range(100):
        at = i * 100
        rows += [
            call("cudaMemcpyAsync", at, at + 60, i + 1),
            memcpy(1, at + 50, at + 60, 8, correlationId=i + 1, srcKind=1, dstKind=2),
        ]
    assert found_in(opened(tmp_path, *rows))["tiny_copies"].potential_ns == 100 * 60
    (tmp_path / "one less").mkdir()
    assert "tiny_copies" not in found_in(opened(tmp_path / "one less", *rows[2:]))


# all-reduce [0, 100), another kernel [60, 160): 40 of the 100 are hidden.
def test_communication_that_nothing_hides(tmp_path: Path) -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm *, unsigned long, ncclWork *)"
    capture = opened(tmp_path, kernel(name, 0, 100, 1), kernel("k", 60, 160, 2, streamId=8))
    finding = found_in(capture)["communication_not_hidden"]
    assert finding.potential_ns == 60
    assert "hid 40 ns" in finding.evidence


def test_events_that_were_lost_come_first(tmp_path: Path) -> None:
    said = "Not all CUDA events might have been collected."
    first, *rest = advise(opened(tmp_path, *loop(), diagnostic(said)))
    assert (first.name, first.potential_ns, first.evidence) == ("lost_events", None, said)
    assert rest


@pytest.mark.parametrize(("names", "said"), [(20, True), (21, False)])
def test_ranges_of_very_many_names_are_no_timings(names: int, said: bool, tmp_path: Path) -> None:  # noqa: FBT001
    rows: list[Row] = []
    for i in range(3 * names):  # the first of each name is its warm-up
        at = i * 10_000_000
        rows += [
            nvtx(f"operator {i % names}", at, at + 1000),
            call("cudaLaunchKernel", at + 100, at + 900, i + 1),
            kernel(f"k{i % names}", at + 5000, at + 9000, i + 1),
        ]
    assert ("timed_launch_only" in found_in(opened(tmp_path, *rows))) is said


def test_less_is_named_where_nothing_else_is_found(tmp_path: Path) -> None:
    rows = [*loop(), call("cudaLaunchKernel", 20_000, 20_010, 11), kernel("other", 20_020, 20_030, 11)]
    capture = opened(tmp_path, *rows)
    assert advise(capture) == []
    [said] = capture.report(REPORT).notes
    assert said.startswith("less than 5 % of the time, and so no finding: ")
    assert "the GPU waits for the host between launches (450 ns, 2.2 %)" in said


def test_nothing_is_said_where_nothing_is_wrong(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("cudaLaunchKernel", 0, 10, 1), kernel("k", 15, 1000, 1))
    assert advise(capture) == []
    assert text.render([capture.report(REPORT)]) == {"advice.txt": f"Advice  advice\n{text.NO_ADVICE}\n"}


def test_findings_are_ranked_by_what_is_at_stake(tmp_path: Path) -> None:
    found = advise(open_capture(recorded.run_folder("graphs/eager", tmp_path)))
    stakes = [finding.potential_ns for finding in found if finding.potential_ns is not None]
    assert stakes == sorted(stakes, reverse=True)
    assert len(stakes) > 1
    for finding in found:
        assert finding.see in NAMES
        assert all((finding.what, finding.evidence, finding.do, finding.unless))


def test_it_is_shown_in_paragraphs_with_the_time_at_stake(cli: Cli, tmp_path: Path) -> None:
    result = cli("report", recorded.run_folder("storm/empty", tmp_path), "--advice")
    assert result.returncode == 0
    title, _, first, *_ = result.stdout.splitlines()
    assert title == "Advice  advice"
    assert re.fullmatch(r"1\. the GPU waits for launches longer than it works \(.* at stake, .* %\)", first)
    for part in ("seen: ", "do: ", "unless: ", "rows:   -r launch_overhead"):
        assert part in result.stdout


def test_of_several_captures_each_finding_names_its_own(cli: Cli, tmp_path: Path) -> None:
    folders = [recorded.run_folder(name, tmp_path) for name in ("storm/empty", "storm/busy")]
    result = cli("report", *folders, "--advice")
    assert result.returncode == 0
    assert "1. empty: the GPU waits for launches" in result.stdout
    assert "busy: the GPU waits" not in result.stdout


# Ten kernels of one block on ten multiprocessors, five at a time: half of the GPU is idle for 2 x 100 ns.
def test_kernels_of_few_blocks_that_run_together_add_up(tmp_path: Path) -> None:
    size = {"gridX": 1, "gridY": 1, "gridZ": 1}
    rows = [kernel("k", 100 * (i // 5), 100 * (i // 5) + 100, i, streamId=i, **size) for i in range(10)]
    finding = found_in(opened(tmp_path, *rows, row("TARGET_INFO_GPU", id=0, name="GPU", smCount=10)))
    assert finding["few_blocks"].potential_ns == 100


def test_copies_and_kernels_of_different_gpus_hide_nothing(tmp_path: Path) -> None:
    here = [kernel("k", 0, 100, 1), memcpy(1, 100, 200, 8, correlationId=2)]
    assert found_in(opened(tmp_path, *here))["copies_not_hidden"].potential_ns == 100
    (tmp_path / "apart").mkdir()
    apart = [kernel("k", 0, 100, 1), memcpy(1, 100, 200, 8, correlationId=2, deviceId=1)]
    assert "copies_not_hidden" not in found_in(opened(tmp_path / "apart", *apart))


def test_what_launching_less_could_save_is_what_launch_overhead_says(tmp_path: Path) -> None:
    rows = []
    for i in range(10):  # each kernel of 5 ns runs 40 ns after its launch began, which follows at once
        rows += [call("cudaLaunchKernel", 60 * i, 60 * i + 35, i), kernel("k", 60 * i + 40, 60 * i + 45, i)]
    capture = opened(tmp_path, *rows)
    saved = found_in(capture)["launch_bound"].potential_ns
    verdict = capture.report("launch_overhead").verdict or ""
    assert f"could save at most {40 * 9} ns, and {15 * 9} ns of host time in between" in verdict
    assert saved == 55 * 9
    (tmp_path / "waits").mkdir()
    waits = [call("cudaDeviceSynchronize", 60 * i + 45, 60 * i + 50) for i in range(10)]
    capture = opened(tmp_path / "waits", *rows, *waits)
    assert "could save nothing" in (capture.report("launch_overhead").verdict or "")
    assert "launch_bound" not in found_in(capture)


def test_a_range_counts_among_those_after_the_warm_up(tmp_path: Path) -> None:
    rows = [
        event
        for i in range(5)
        for event in (
            nvtx("saxpy", 10_000_000 * i, 10_000_000 * i + 1000),
            call("cudaLaunchKernel", 10_000_000 * i + 100, 10_000_000 * i + 900, i + 1),
            kernel("k", 10_000_000 * i + 5000, 10_000_000 * i + 9000, i + 1),
        )
    ]
    evidence = found_in(opened(tmp_path, *rows))["timed_launch_only"].evidence
    assert evidence.startswith("by more than 10 %, after the warm-up: 'saxpy' (4 of 4): 1.00 µs")


def test_a_gpu_that_is_always_busy_has_no_row(tmp_path: Path) -> None:
    rows = [call("cudaLaunchKernel", 0, 10, 1), kernel("k", 15, 1000, 1)]
    assert csv_of(opened(tmp_path, *rows), REPORT) == HEADER


@not_collected(KERNEL, MEMCPY, MEMSET, GRAPH)
def test_operations_that_are_not_there_have_to_be_collected(empty: Sequence[str], tmp_path: Path) -> None:
    assert "(--trace=cuda" in hint_of(capture_of(tmp_path, empty=empty), REPORT)
