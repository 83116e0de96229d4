"""The trust line of the summary screen: what was seen, and whether to believe it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tiny_export import (
    API,
    DIAGNOSTIC,
    Row,
    call,
    diagnostic,
    graph,
    kernel,
    memcpy,
    memset,
    opened,
)

from nsyswrap.analysis.diagnostics.summary_line import trust

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN = "this export carries no diagnostics"
NO_LOSS, NO_COPY = "no dropped events reported", "0 copies, 0 memsets"
MORE = "(-r diagnostics)"
LOST = f"{UNKNOWN} {MORE}"
GONE = "events were dropped, or somebody removed them"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [kernel("k", 0, 5)],
            [f"seen: 1 kernel (no launch calls recorded), 0 copies, 0 memsets, 0 API calls · {UNKNOWN}"],
        ),
        (
            [kernel("k", 5, 9, 1), call("f", 0, 1, 1), memcpy(1, 0, 5, 8), diagnostic("started", severity=1)],
            [f"seen: 1 kernel from 1 launch, 1 copy, 0 memsets, 1 API call · no warnings, {NO_LOSS}"],
        ),
        (
            [memset(0, 5, 1), memset(5, 9, 1), diagnostic("the clock jumped"), diagnostic("no symbols")],
            [f"seen: 0 kernels, 0 copies, 2 memsets, 0 API calls · 2 warnings, {NO_LOSS} {MORE}",
             "  nsys: the clock jumped",
             "  nsys: no symbols"],
        ),
        (
            [memset(0, 5, 1), diagnostic("the clock jumped"), diagnostic("no symbols"),
             diagnostic("Dropped 12 events")],
            [f"seen: 0 kernels, 0 copies, 1 memset, 0 API calls · 3 warnings, 1 about missing events {MORE}",
             "  nsys: Dropped 12 events",
             "  nsys: the clock jumped"],
        ),
        (
            [graph(5, 9, 1), graph(10, 12, 2), graph(20, 22, 3), call("cudaGraphLaunch", 0, 1, 1)],
            [f"seen: 0 kernels, 0 copies, 0 memsets, 1 API call · {UNKNOWN} {MORE}",
             "  3 whole-graph executions hide their kernels here: profile with --graphs node"],
        ),
        (
            [graph(5, 9, 1)],
            [f"seen: 0 kernels, 0 copies, 0 memsets, 0 API calls · {UNKNOWN} {MORE}",
             "  1 whole-graph execution hides its kernels here: profile with --graphs node"],
        ),
        (
            [kernel("k", 5, 9, 1), kernel("k", 9, 12, 1), kernel("k", 15, 19, 7), call("f", 0, 1, 1)],
            [f"seen: 3 kernels from 1 launch, 1 without their call, {NO_COPY}, 1 API call · {LOST}"],
        ),
        (  # the second kernel 3 ns before its call, the fourth 1 µs; the third when the call is made
            [kernel("k", 5, 9, 1), kernel("k", 17, 19, 2), kernel("k", 30, 40, 3), kernel("k", 1000, 1001, 4),
             call("f", 0, 1, 1), call("f", 20, 21, 2), call("f", 30, 31, 3), call("f", 2000, 2001, 4)],
            [f"seen: 4 kernels from 4 launches, {NO_COPY}, 4 API calls · {UNKNOWN} {MORE}",
             "  2 kernels began before the launch call, by up to 1.00 µs"],
        ),
    ],
    ids=["no diagnostics", "no warnings", "warnings", "dropped", "graphs", "one graph", "no call", "clocks"],
)  # fmt: skip
def test_the_trust_line(tmp_path: Path, rows: list[Row], said: list[str]) -> None:
    assert trust(opened(tmp_path, *rows)) == said


def test_launches_that_failed_or_whose_work_is_missing(tmp_path: Path) -> None:
    rows = [kernel("k", 5, 9, 1), kernel("k", 30, 40, 4), diagnostic("started", severity=1)]
    calls = [call("cudaLaunchKernel", 10 * i, 10 * i + 1, i + 1) for i in range(4)]
    calls[1].cells["returnValue"] = 700
    line, *remarks = trust(opened(tmp_path, *rows, *calls))
    said = f"nsys: no warnings, {NO_LOSS} {MORE}"
    assert line == f"seen: 2 kernels from 2 launches, {NO_COPY}, 4 API calls · {said}"
    assert remarks == [
        "  1 launch call failed and started nothing: what the program meant to run is missing",
        f"  1 launch call without recorded work (1 cudaLaunchKernel): {GONE}",
    ]


def test_a_runtime_call_and_the_driver_call_below_it_are_one_launch(tmp_path: Path) -> None:
    # runtime 0 ---------- 10, driver 4 -- 8: a kernel that begins at 2 is after the outer one
    calls = [call("cuLaunchKernel", 4, 8, 1, eventClass=1), call("cudaLaunchKernel", 0, 10, 1)]
    [line] = trust(opened(tmp_path, kernel("k", 2, 20, 1), *calls))
    assert line == f"seen: 1 kernel from 1 launch, {NO_COPY}, 2 API calls · {UNKNOWN}"


def test_a_kernel_or_a_call_without_a_start_is_no_oddity_of_the_clocks(tmp_path: Path) -> None:
    first = [kernel("k", 20, 30, 1), call("cudaLaunchKernel", 0, 10, 1)]
    second = [kernel("k", 20, 30, 2), call("cudaLaunchKernel", 0, 10, 2)]
    rows = [startless(first[0]), first[1], second[0], startless(second[1])]
    assert len(trust(opened(tmp_path, *rows))) == 1


def startless(event: Row) -> Row:
    return Row(event.table, {**event.cells, "start": None})


def test_an_empty_table_of_diagnostics_says_nothing(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5), empty=[DIAGNOSTIC, API])
    assert trust(capture)[0].endswith(UNKNOWN)


def test_verbose_messages_and_those_without_a_severity_are_no_warnings(tmp_path: Path) -> None:
    said = [diagnostic("looked at 3 files", severity=4), Row(DIAGNOSTIC, {"severity": None, "text": "lost"})]
    [line] = trust(opened(tmp_path, kernel("k", 0, 5), *said))
    assert line.endswith(f"no warnings, {NO_LOSS}")
