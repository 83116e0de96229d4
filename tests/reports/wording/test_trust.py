"""The trust line of the summary screen: what was seen, and whether to believe it."""

from pathlib import Path

import pytest
from tiny_export import API, DIAGNOSTIC, Row, call, diagnostic, graph, kernel, memcpy, memset, opened

from nsyswrap.reports.summary import trust

UNKNOWN = "nsys did not say whether events were lost"
NO_LOSS = "no dropped events reported"
MORE = "(-r diagnostics)"
LOST = f"{UNKNOWN} {MORE}"
GONE = "events were dropped or removed"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [kernel("k", 0, 5)],
            [f"1 kernel (no launch calls recorded); {UNKNOWN}"],
        ),
        (
            [kernel("k", 5, 9, 1), call("f", 0, 1, 1), memcpy(1, 0, 5, 8), diagnostic("started", severity=1)],
            ["1 kernel, 1 copy; trace complete"],
        ),
        (
            [memset(0, 5, 1), memset(5, 9, 1), diagnostic("the clock jumped"), diagnostic("no symbols")],
            [f"0 kernels, 2 memsets; 2 nsys warnings, {NO_LOSS} {MORE}",
             "  nsys: no symbols",  # of the same time: by text
             "  nsys: the clock jumped"],
        ),
        (
            [memset(0, 5, 1), diagnostic("the clock jumped"), diagnostic("no symbols"),
             diagnostic("Dropped 12 events")],
            [f"0 kernels, 1 memset; 3 nsys warnings, 1 about missing events {MORE}",
             "  nsys: Dropped 12 events",
             "  nsys: no symbols"],
        ),
        (
            [kernel("k", 5, 9, 1), call("f", 0, 1, 1), diagnostic("Not all OpenGL events might be here"),
             diagnostic("Number of CUDA events collected: 2.", severity=1)],
            [f"1 kernel; 1 nsys warning, all 2 CUDA events are here {MORE}",
             "  nsys: Not all OpenGL events might be here"],
        ),
        (
            [graph(5, 9, 1), graph(10, 12, 2), graph(20, 22, 3), call("cudaGraphLaunch", 0, 1, 1)],
            [f"0 kernels, 1 API call; {UNKNOWN} {MORE}",
             "  3 whole-graph executions hide their kernels; profile with --graphs node"],
        ),
        (
            [graph(5, 9, 1)],
            [f"0 kernels; {UNKNOWN} {MORE}",
             "  1 whole-graph execution hides its kernels; profile with --graphs node"],
        ),
        (
            [graph(5, 9, 1), diagnostic("started", severity=1)],
            [f"0 kernels; no nsys warnings, {NO_LOSS} {MORE}",
             "  1 whole-graph execution hides its kernels; profile with --graphs node"],
        ),
        (
            [kernel("k", 5, 9, 1), kernel("k", 9, 12, 1), call("f", 0, 1, 1), diagnostic("on", severity=1)],
            ["2 kernels from 1 launch; trace complete"],
        ),
        (
            [kernel("k", 5, 9, 1), kernel("k", 9, 12, 1), kernel("k", 15, 19, 7), call("f", 0, 1, 1)],
            [f"3 kernels (1 without a launch call); {LOST}"],
        ),
        (  # the second kernel 3 ns before its call, the fourth 1 µs; the third when the call is made
            [kernel("k", 5, 9, 1), kernel("k", 17, 19, 2), kernel("k", 30, 40, 3), kernel("k", 1000, 1001, 4),
             call("f", 0, 1, 1), call("f", 20, 21, 2), call("f", 30, 31, 3), call("f", 2000, 2001, 4)],
            [f"4 kernels; {LOST}",
             "  2 kernels began up to 1.00 µs before the launch call"],
        ),
    ],
    ids=["no diagnostics", "no warnings", "warnings", "dropped", "other events", "graphs", "one graph",
         "graph, diagnostics", "launch of two", "no call", "clocks"],
)  # fmt: skip
def test_the_trust_line(tmp_path: Path, rows: list[Row], said: list[str]) -> None:
    assert trust(opened(tmp_path, *rows)).lines == said


def test_launches_that_failed_or_whose_work_is_missing(tmp_path: Path) -> None:
    rows = [kernel("k", 5, 9, 1), kernel("k", 30, 40, 4), diagnostic("started", severity=1)]
    calls = [call("cudaLaunchKernel", 10 * i, 10 * i + 1, i + 1) for i in range(4)]
    calls[1].cells["returnValue"] = 700
    line, *remarks = trust(opened(tmp_path, *rows, *calls)).lines
    assert line == f"2 kernels; no nsys warnings, {NO_LOSS} {MORE}"
    assert remarks == [
        "  1 launch call failed and started nothing; the GPU work is missing",
        f"  1 launch call without recorded work: {GONE} (1 cudaLaunchKernel)",
    ]


def test_a_runtime_call_and_the_driver_call_below_it_are_one_launch(tmp_path: Path) -> None:
    # runtime 0 ---------- 10, driver 4 -- 8: a kernel that begins at 2 is after the outer one
    calls = [call("cuLaunchKernel", 4, 8, 1, eventClass=1), call("cudaLaunchKernel", 0, 10, 1)]
    [line] = trust(opened(tmp_path, kernel("k", 2, 20, 1), *calls)).lines
    assert line == f"1 kernel; {UNKNOWN}"


def test_an_empty_table_of_diagnostics_says_nothing(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5), empty=[DIAGNOSTIC, API])
    assert trust(capture).lines[0].endswith(UNKNOWN)


def test_a_part_without_messages_of_its_own_is_as_complete_as_the_capture(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5, pid=700), diagnostic("looked at 3 files", severity=4))
    assert trust(capture.select(process=700)).lines == ["1 kernel (no launch calls recorded); trace complete"]


def test_verbose_messages_and_those_without_a_severity_are_no_warnings(tmp_path: Path) -> None:
    said = [diagnostic("looked at 3 files", severity=4), Row(DIAGNOSTIC, {"severity": None, "text": "lost"})]
    [line] = trust(opened(tmp_path, kernel("k", 0, 5), *said)).lines
    assert line.endswith("; trace complete")
