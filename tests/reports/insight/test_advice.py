"""advice: its columns and texts, and what recorded captures of known faults must and must not show."""

import re
from pathlib import Path

import pytest
import recorded
from advised import findings_of, launched, looped, new
from conftest import Cli
from report_tables import csv_of, records_of
from tiny_export import Row, call, diagnostic, kernel, memcpy, nvtx

from nsyswrap.api import open_capture
from nsyswrap.cli.explain import explain
from nsyswrap.render.formats import text

REPORT = "advice"
HEADER = "finding,at_stake_ns,at_stake_percent,what,evidence,advice,unless,see,example,shares\n"
# CPU  host 0-390 |L 8 ns|
# GPU                    k[400 ... 1000), four times; the last three steps are judged
HOST_BOUND = looped(*launched(400, host=390))
# Recorded captures whose faults are known: what has to be found in them, and what must not.
LABELLED: dict[str, tuple[set[str], set[str]]] = {
    "storm/empty": ({"launch_bound"}, {"pageable_copies", "host_bound", "allocating"}),
    "storm/busy": ({"few_blocks"}, {"launch_bound", "host_bound", "synchronizing"}),
    "graphs/eager": ({"launch_bound"}, {"pageable_copies", "host_bound"}),
    "copies/pageable": ({"pageable_copies"}, {"launch_bound", "tiny_copies"}),
    "copies/managed": ({"waiting_for_pages"}, {"pageable_copies", "launch_bound"}),
    "copies/pinned": (set(), {"waiting_for_pages", "pageable_copies", "launch_bound", "tiny_copies"}),
    "overlap/one_stream": ({"copies_not_overlapped"}, {"pageable_copies", "launch_bound"}),
    "overlap/four_streams": (set(), {"copies_not_overlapped", "pageable_copies", "launch_bound"}),
    "rules/wasteful": ({"host_bound"}, {"launch_bound"}),
    "rules/careful": (set(), {"host_bound", "launch_bound", "synchronizing", "pageable_copies"}),
    "add/1x1": ({"few_blocks"}, {"launch_bound", "faulting_kernels"}),
    "add/1x256": ({"few_blocks"}, {"launch_bound"}),
    "add/grid": ({"faulting_kernels"}, {"few_blocks", "launch_bound", "pageable_copies"}),
    "add/prefetch": (set(), {"waiting_for_pages", "faulting_kernels", "launch_bound", "pageable_copies"}),
    "add2/both": (set(), {"timed_launch_only", "timed_earlier_work", "faulting_kernels"}),
    "add2/second": (set(), {"timed_launch_only", "timed_earlier_work"}),
    "add2/first": ({"timed_launch_only"}, {"timed_earlier_work"}),
    "add2/none": ({"timed_launch_only"}, {"timed_earlier_work"}),
    "add2_queued/second": ({"timed_earlier_work"}, {"timed_launch_only"}),
    "add2_queued/none": ({"timed_launch_only"}, {"timed_earlier_work"}),
    "events/nosync": (set(), {"timed_earlier_work"}),
    "ddp/straggler": ({"waiting_for_rank"}, {"few_blocks", "tiny_copies", "launch_bound"}),
    "ddp/even": (set(), {"waiting_for_rank"}),
    "gelu/torch": ({"synchronizing"}, {"launch_bound", "timed_earlier_work"}),
}


@pytest.mark.parametrize("name", LABELLED)
def test_a_capture_of_known_faults(name: str, tmp_path: Path) -> None:
    found = findings_of(open_capture(recorded.run_folder(name, tmp_path))).keys()
    expected, forbidden = LABELLED[name]
    assert expected <= found
    assert not forbidden & found


def test_one_finding(tmp_path: Path) -> None:
    assert csv_of(new(tmp_path, *HOST_BOUND), REPORT) == (
        f"{HEADER}"
        "host_bound,1170,39.0,"
        '"Host-bound: host code leaves the GPU idle, median 390 ns per gap",'
        '"gaps with the launching thread outside CUDA calls: 1 per step, 1.17 µs in total",'
        '"move host work out of the loop or to another thread, or queue more GPU work ahead",'
        '"the program had no work for the GPU, for example between requests",'
        "gpu_idle,"
        '"auto following = std::async(std::launch::async, prepare);  // while the GPU works",\n'
    )


def test_one_finding_on_the_screen(tmp_path: Path) -> None:
    table = new(tmp_path, *HOST_BOUND).report(REPORT)
    assert text.render([table], width=100)["advice.txt"].splitlines() == [
        "Findings  advice",
        "",
        "1. Host-bound: host code leaves the GPU idle, median 390 ns per gap (saves at most 1.17 µs, 39.0 %)",
        "   seen:   gaps with the launching thread outside CUDA calls: 1 per step, 1.17 µs in total",
        "   do:     move host work out of the loop or to another thread, or queue more GPU work ahead",
        "   unless: the program had no work for the GPU, for example between requests",
        "   code:   auto following = std::async(std::launch::async, prepare);  // while the GPU works",
        "   rows:   -r gpu_idle",
    ]


def test_findings_on_the_same_time_say_so(tmp_path: Path) -> None:
    # a[10, 300), a pageable copy to the host [400, 690), and the launch of b[720, 1000) after it
    step = [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("a", 10, 300, 1)),
        call("cudaMemcpy", 10, 700, 2),
        memcpy(2, 400, 690, 10**6, correlationId=2, srcKind=2, dstKind=0),
        *(call("cudaLaunchKernel", 700, 710, 3), kernel("b", 720, 1000, 3)),
    ]
    table = new(tmp_path, *looped(*step)).report(REPORT)
    assert [row["shares"] for row in records_of(table)] == ["synchronizing", "pageable_copies"]
    shown = text.render([table])["advice.txt"]
    assert (
        "   note:   part of this time also counts for 'Waiting for the GPU (synchronizing) leaves it idle'\n"
        in shown
    )
    assert "   note:   part of this time also counts for 'Pageable copies'\n" in shown


def test_a_doubt_has_nothing_at_stake(tmp_path: Path) -> None:
    said = "Not all CUDA events might have been collected."
    table = new(tmp_path, *HOST_BOUND, diagnostic(said)).report(REPORT)
    [doubt] = records_of(table)  # the host-bound program gets no verdict
    assert (doubt["finding"], doubt["at_stake_ns"], doubt["evidence"]) == ("lost_events", None, said)
    assert f"no verdict: nsys reported missing events: {said}" in table.notes
    lines = text.render([table])["advice.txt"].splitlines()
    assert "1. Events are missing from this capture: counts and times may be too low" in lines


def test_less_is_named_where_nothing_else_is_found(tmp_path: Path) -> None:
    table = new(tmp_path, *looped(*launched(49))).report(REPORT)
    assert not len(table)
    [note] = table.notes
    assert note == (
        "below 5 % of the time, so not a finding: "
        "Launch latency leaves the GPU idle: median 8 ns for 951 ns of GPU work (147 ns, 4.9 %)"
    )


def test_less_than_one_percent_is_not_named(tmp_path: Path) -> None:
    assert new(tmp_path, *looped(*launched(9))).report(REPORT).notes == ()


def test_ranges_that_organize_are_a_note(tmp_path: Path) -> None:
    rows: list[Row] = []
    for i in range(4):
        at = i * 1_000_000
        rows += [nvtx("forward", at, at + 20_000), call("cudaLaunchKernel", at, at + 9000, i + 1)]
        rows += [kernel("k", at + 10_000, at + 900_000, i + 1)]
    [note] = new(tmp_path, *rows).report(REPORT).notes
    assert note.startswith("NVTX ranges and their GPU work differ in duration: 'forward'")


def test_nothing_is_said_where_nothing_is_wrong(tmp_path: Path) -> None:
    capture = new(tmp_path, call("cudaLaunchKernel", 0, 10, 1), kernel("k", 15, 1000, 1))
    assert csv_of(capture, REPORT) == HEADER
    assert capture.report(REPORT).notes == ()
    assert text.render([capture.report(REPORT)]) == {"advice.txt": f"Findings  advice\n{text.NO_ADVICE}\n"}


def test_a_busy_time_without_findings_has_events(tmp_path: Path) -> None:
    capture = new(tmp_path, *(kernel("k", n, n + 100, n) for n in range(0, 100_000, 100)))
    table = capture.select(time="500/90000").report(REPORT)
    assert (table.rows(), list(table.notes)) == ([], [])


def test_what_is_selected_is_judged(tmp_path: Path) -> None:
    capture = new(tmp_path, *HOST_BOUND)
    [row] = records_of(capture.select(time="1000/2000").report(REPORT))
    assert (row["finding"], row["at_stake_ns"], row["at_stake_percent"]) == ("host_bound", 390, 39.0)
    [row] = records_of(capture.viewed(steps="2-3").report(REPORT))
    assert (row["finding"], row["at_stake_ns"], row["at_stake_percent"]) == ("host_bound", 780, 39.0)


def test_it_is_shown_in_paragraphs_with_the_saving(cli: Cli, tmp_path: Path) -> None:
    result = cli("report", recorded.run_folder("storm/empty", tmp_path), "--advice")
    assert result.returncode == 0
    title, _, first, *_ = result.stdout.splitlines()
    assert title == "Findings  advice"
    assert re.fullmatch(r"1\. Launch-bound: median launch .* \(saves at most .*, .* %\)", first)
    for part in ("seen: ", "do: ", "unless: ", "code: ", "rows:   -r launch_overhead"):
        assert part in result.stdout


def test_of_several_captures_each_finding_names_its_own(cli: Cli, tmp_path: Path) -> None:
    folders = [recorded.run_folder(name, tmp_path) for name in ("storm/empty", "storm/busy")]
    result = cli("report", *folders, "--advice")
    assert result.returncode == 0
    assert re.search(r"^\d\. 'empty': Launch-bound: ", result.stdout, re.MULTILINE)
    assert re.search(r"^\d\. 'busy': Few blocks: ", result.stdout, re.MULTILINE)
    assert "busy: Launch" not in result.stdout


def test_it_explains_the_saving() -> None:
    said = " ".join(explain(REPORT).split())
    assert "A change saves at most the time of the judged part that the finding concerns" in said
    assert "A finding of less than 5 % of the judged time is left out." in said
