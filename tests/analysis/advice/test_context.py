"""What several checks share: which story a gap belongs to, and counts per step."""

from dataclasses import replace
from pathlib import Path

import pytest
from advised import STEP_NS, context_of, launched, looped, new
from tiny_export import Row, call, kernel, memcpy

from nsyswrap.analysis.advice.context import loads_in_gaps
from nsyswrap.analysis.finding import Finding
from nsyswrap.capture.intervals import NOTHING

KINDS = ("loading", "allocating", "waited", "copying", "launching", "long_host")
SYNC = "cudaDeviceSynchronize"


def kinds_of(folder: Path, *step: Row) -> list[set[str]]:
    """The marks of each gap in the steady steps."""
    kinds = context_of(new(folder, *looped(*step))).kinds
    marks = {name: getattr(kinds, name).tolist() for name in KINDS}
    return [{name for name in KINDS if marks[name][gap]} for gap in range(len(marks["loading"]))]


# Each step is idle from 0 to 400; then its kernel runs until the end.
@pytest.mark.parametrize(
    ("host", "before", "expected"),
    [
        (80, [], {"launching"}),
        (81, [], {"launching", "long_host"}),
        (390, [call("cuModuleLoadData", 0, 1)], {"loading", "long_host"}),
        (390, [call("cudaMalloc", 0, 40)], {"launching", "long_host"}),
        (390, [call("cudaMalloc", 0, 41)], {"allocating", "long_host"}),
        (390, [call(SYNC, 0, 1)], {"launching", "waited", "long_host"}),
        (390, [call(SYNC, 0, 390)], {"launching", "waited"}),
        (390, [call("cudaGetDevice", 0, 390)], {"launching"}),
    ],
)
def test_the_story_of_a_gap(host: int, before: list[Row], expected: set[str], tmp_path: Path) -> None:
    assert kinds_of(tmp_path, *before, *launched(400, host=host)) == [expected] * 3


def test_a_copy_ends_a_gap(tmp_path: Path) -> None:
    step = [
        *(call("cudaMemcpyAsync", 0, 10, 1), memcpy(1, 20, 30, 8, correlationId=1)),
        *(call("cudaLaunchKernel", 10, 20, 2), kernel("k", 30, STEP_NS, 2)),
    ]
    assert kinds_of(tmp_path, *step) == [{"copying"}] * 3


def test_without_launches_the_calls_that_copy_are_the_measure_of_host_code(tmp_path: Path) -> None:
    def copies(host: int) -> list[Row]:
        called = [call("cudaMemcpyAsync", host + 30 * i, host + 30 * i + 10, i + 1) for i in (0, 1)]
        copied = [memcpy(1, 0, 20, 8, correlationId=1), memcpy(1, host + 100, 900, 8, correlationId=2)]
        return [*called, *copied]

    def long_host(host: int) -> bool:
        return bool(context_of(new(tmp_path, *copies(host))).kinds.long_host[0])

    # calls of 10 ns; the second copy's call begins 30 ns after the first one's, the gap after 20 ns
    assert [long_host(host) for host in (100, 101)] == [False, True]


def test_loading_calls_are_counted_in_the_gap_of_their_thread(tmp_path: Path) -> None:
    loads = [
        *(call("cuModuleLoadData", 0, 10), call("cuLibraryLoadData", 20, 30), call("cuLinkComplete", 40, 50)),
        *(call("cuModuleLoadData", 60, 70, tid=101), call("cuModuleUnload", 80, 90)),
        call("cuModuleLoadData", 500, 510),  # the GPU is busy
    ]
    context = context_of(new(tmp_path, *looped(*launched(400, host=390), *loads)))
    assert loads_in_gaps(context).tolist() == [3, 3, 3]


def test_steady_steps_are_counted(tmp_path: Path) -> None:
    capture = new(tmp_path, *looped(*launched(400, host=390)))
    parts = (context_of(capture), context_of(capture.select(time="1000/4000")))
    assert [one.finding("tiny_copies", NOTHING, "gpu_idle").numbers["steps"] for one in parts] == [3, 0]


def test_a_share_of_the_window_is_worth_a_finding(tmp_path: Path) -> None:
    context = context_of(new(tmp_path, *looped(*launched(400, host=390))))
    assert [context.worth(ns) for ns in (0, 149, 150)] == [False, False, True]


def test_a_share_of_a_doubt_is_not_known() -> None:
    doubt = Finding.doubt("lost_events", "diagnostics", losses=())
    assert replace(doubt, window_ns=200).ceiling_percent is None
    assert replace(doubt, window_ns=200, ceiling_ns=25).ceiling_percent == 12.5
