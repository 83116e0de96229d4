"""Gaps in the GPU's work and what the host did meanwhile: every cause on an export small enough to draw."""

from pathlib import Path

import numpy as np
import pytest
from tiny_export import PID, Row, call, global_id, graph, kernel, memcpy, memset, opened, row

from nsyswrap.analysis.gpu_gaps import ACTIVITIES, CAUSES, ThreadActivity, gaps_of
from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING

LAUNCH, SYNC = "cudaLaunchKernel", "cudaDeviceSynchronize"
# A kernel until 10, and one whose launch begins at 50 and returns at 60; it starts at 63.
# CPU  L[0,1)                 L[50,60)
# GPU        k[5,10)                   k[63,70)
FIRST = [call(LAUNCH, 0, 1, 1), kernel("k", 5, 10, 1)]
TWO = [*FIRST, call(LAUNCH, 50, 60, 2), kernel("k", 63, 70, 2)]


def parts(capture: CaptureReader) -> list[dict[str, int]]:
    """What took time in each gap."""
    found = gaps_of(capture)
    made = [
        {cause: int(part[i]) for cause, part in found.parts.items() if part[i]} for i in range(len(found))
    ]
    assert [sum(part.values()) for part in made] == found.duration_ns.tolist()
    return made


def overhead(start: int, end: int, tid: int = PID) -> Row:
    thread = global_id(PID, tid)
    return row("PROFILER_OVERHEAD", start=start, end=end, globalTid=thread, nameId="CUPTI Buffer flush")


def cuda_overhead(start: int, end: int, kind: int) -> Row:
    thread = global_id(PID, PID)
    cells = {"globalTid": thread, "nameId": "Lazy Function Loading", "overheadType": kind}
    return row("CUPTI_ACTIVITY_KIND_OVERHEAD", start=start, end=end, **cells)


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        ([], {"host": 40}),
        # The rest of a wait for the kernel, from 10 on.
        ([call(SYNC, 2, 14)], {"synchronise": 4, "host": 36}),
        ([call("cudaEventSynchronize", 20, 30)], {"synchronise": 10, "host": 30}),
        ([call("cudaMalloc", 20, 30), call("cudaFree", 30, 35)], {"allocate": 15, "host": 25}),
        ([call("cuLibraryLoadData", 20, 45)], {"load": 25, "host": 15}),
        ([call("cudaMemcpy", 3, 12), call("cudaMemset", 20, 21)], {"copy": 3, "host": 37}),
        ([call("cudaEventRecord", 20, 21), call("cudaStreamCreate", 22, 32)], {"call": 11, "host": 29}),
        # A launch into another device.
        ([call(LAUNCH, 20, 30, 9), kernel("k", 64, 66, 9, deviceId=1)], {"launch": 10, "host": 30}),
        # Calls lie in each other: time counts once, as what comes first in CAUSES.
        ([call("cudaMalloc", 20, 40), call("cuMemAlloc_v2", 22, 38)], {"allocate": 20, "host": 20}),
        ([call("cudaFree", 20, 40), call("cuCtxCreate", 25, 35)], {"load": 10, "allocate": 10, "host": 20}),
        ([call("cudaMemset", 20, 40), call(SYNC, 25, 40)], {"synchronise": 15, "copy": 5, "host": 20}),
        # Another thread and another process with the same thread's number do not count.
        ([call(SYNC, 2, 50, tid=101), call(SYNC, 2, 50, pid=7, tid=PID)], {"host": 40}),
    ],
)  # fmt: skip
def test_what_the_launching_thread_did_until_its_launch(
    meanwhile: list[Row], expected: dict[str, int], tmp_path: Path
) -> None:
    found, *_ = parts(opened(tmp_path, *TWO, *meanwhile))
    assert found.pop("launch") == 63 - 50 + expected.pop("launch", 0)
    assert found == expected


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        ([overhead(20, 30)], {"profiler": 10, "host": 30, "launch": 13}),
        ([overhead(20, 30, tid=101)], {"host": 40, "launch": 13}),
        ([overhead(0, 99)], {"profiler": 50, "launch": 3}),  # what follows the launch's return is its own
        ([overhead(52, 56)], {"profiler": 4, "host": 40, "launch": 9}),
        ([call(SYNC, 10, 40), overhead(20, 50)], {"profiler": 30, "synchronise": 10, "launch": 13}),
        # What CUDA does without nsys too: it loads, and waits for room in the queue.
        ([cuda_overhead(52, 56, 7)], {"load": 4, "host": 40, "launch": 9}),
        ([cuda_overhead(52, 56, 8)], {"host": 40, "launch": 13}),
        ([call("cuInit", 52, 57), call("cuLaunchKernel", 57, 59)], {"load": 5, "host": 40, "launch": 8}),
    ],
)  # fmt: skip
def test_the_profiler_and_loading_inside_a_launch(
    meanwhile: list[Row], expected: dict[str, int], tmp_path: Path
) -> None:
    assert parts(opened(tmp_path, *TWO, *meanwhile)) == [expected]


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (50, 60, {"host": 40, "launch": 13}),
        (3, 10, {"queued": 53}),  # back when the GPU ran dry
        (3, 11, {"launch": 1, "queued": 52}),  # still under way, but back long before the operation
        (3, 60, {"launch": 53}),
        (3, 64, {"launch": 53}),
        (10, 11, {"launch": 53}),
        (63, 70, {"host": 53}),
        (66, 70, {"host": 53}),  # the clocks disagree: it started before its launch
    ],
)
def test_when_the_launch_was(begin: int, end: int, expected: dict[str, int], tmp_path: Path) -> None:
    rows = [*FIRST, call(LAUNCH, begin, end, 2), kernel("k", 63, 70, 2)]
    assert parts(opened(tmp_path, *rows)) == [expected]


def test_a_launch_that_returned_long_before_waits_for_something_else(tmp_path: Path) -> None:
    # The last of three repeats has the longest latency; the limit is 3 x the median of 20 ns.
    quick = [
        row
        for i in (3, 4)
        for row in (call(LAUNCH, 1000 * i, 1000 * i + 5, i), kernel("k", 1000 * i + 20, 1000 * i + 30, i))
    ]
    for starts, expected in ((120, {"launch": 70}), (121, {"launch": 10, "queued": 61})):
        (tmp_path / str(starts)).mkdir()
        rows = [*FIRST, call(LAUNCH, 50, 60, 2), kernel("k", starts, starts + 9, 2), *quick]
        assert parts(opened(tmp_path / str(starts), *rows))[0] == {"host": 40, **expected}


def test_profiling_does_not_hold_up_what_is_queued(tmp_path: Path) -> None:
    rows = [*FIRST, call(LAUNCH, 3, 8, 2), kernel("k", 63, 70, 2), overhead(20, 30)]
    assert parts(opened(tmp_path, *rows)) == [{"queued": 53}]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([call("cudaMemcpy", 50, 70, 2), memcpy(1, 63, 69, 8, correlationId=2)], {"host": 40, "copy": 13}),
        ([call("cudaMemsetAsync", 50, 60, 2), memset(63, 66, 8, correlationId=2)], {"host": 40, "copy": 13}),
        ([call("cudaGraphLaunch", 50, 60, 2), graph(63, 70, 2)], {"host": 40, "launch": 13}),
        # A runtime call and the driver call below it: the outer one is the launch.
        ([call("cuLaunchKernel", 55, 59, 2), *TWO[2:]], {"host": 40, "launch": 13}),
        ([memcpy(11, 63, 70, 4096)], {"migration": 53}),
        ([kernel("k", 63, 70, 2)], {"unknown": 53}),
        ([call(LAUNCH, 50, 60, 2, pid=7), kernel("k", 63, 70, 2)], {"unknown": 53}),
    ],
)  # fmt: skip
def test_what_ends_a_gap(rows: list[Row], expected: dict[str, int], tmp_path: Path) -> None:
    assert parts(opened(tmp_path, *FIRST, *rows)) == [expected]


def test_the_nodes_of_a_graph_wait_for_its_launch_and_for_each_other(tmp_path: Path) -> None:
    # CPU        G[20........40)
    # GPU  k[5,10)        n[30,35)  n[38,42)   n[50,55)
    nodes = [kernel("n", *span, 2, graphNodeId=i) for i, span in enumerate(((30, 35), (38, 42), (50, 55)), 1)]
    found = parts(opened(tmp_path, *FIRST, call("cudaGraphLaunch", 20, 40, 2), *nodes))
    assert found == [{"host": 10, "launch": 10}, {"launch": 3}, {"queued": 8}]


def test_no_gap_inside_a_whole_graph_or_beside_other_work(tmp_path: Path) -> None:
    rows = [
        graph(0, 50, 1),
        kernel("k", 10, 20, 2),
        memcpy(11, 45, 60, 8),
        memset(60, 61, 8),
        kernel("k", 61, 70, 3),
    ]
    assert parts(opened(tmp_path, *rows)) == []


def test_each_process_idles_for_itself(tmp_path: Path) -> None:
    # Both use correlation ids 1 and 2; that of the other's launch would make it inside a launch.
    other = [call(LAUNCH, 0, 2, 1, pid=7), kernel("k", 4, 20, 1, pid=7)]
    other += [call(SYNC, 5, 25, 3, pid=7), call(LAUNCH, 30, 33, 2, pid=7), kernel("k", 40, 41, 2, pid=7)]
    found = gaps_of(opened(tmp_path, *TWO, *other))
    assert found.global_pid.tolist() == [global_id(7), global_id(PID)]
    assert found.thread.tolist() == [global_id(7, 7), global_id(PID, PID)]
    assert (found.end_ns - found.launching_ns).tolist() == [30, 50]
    assert [found.parts[cause].tolist() for cause in ("synchronise", "host", "launch")] == [
        [5, 0],
        [5, 40],
        [10, 13],
    ]


def test_each_device_idles_for_itself(tmp_path: Path) -> None:
    # One thread launches into both: what it did until the launch into 1 is the cause there.
    rows = [*TWO, call(LAUNCH, 2, 3, 3), kernel("k", 6, 20, 3, deviceId=1)]
    rows += [call(LAUNCH, 60, 70, 4), kernel("k", 75, 80, 4, deviceId=1)]
    capture = opened(tmp_path, *rows)
    assert gaps_of(capture).device_id.tolist() == [0, 1]
    assert parts(capture) == [
        {"host": 40, "launch": 13},
        {"host": 30, "launch": 10 + 15},  # the launch into 0, then its own
    ]


def at_ends(capture: CaptureReader) -> list[tuple[int, int, str, str]]:
    """Start and end of each gap, and the kernels on both sides by their names."""
    found = gaps_of(capture)
    names = ["before", "k", "l", "after"]
    kernels = found.operations.row
    sides = [
        [names[kernels[i]] if i >= 0 else "-" for i in side.tolist()] for side in (found.before, found.after)
    ]
    return list(zip(found.start_ns.tolist(), found.end_ns.tolist(), *sides, strict=True))


# CPU  L[0,1)        L[24,26)                 L[46,48)           L[80,85)
# GPU  before[5,10)           k[30,40)                 l[50,60)           after[90,95)
FOUR = [
    *(call(LAUNCH, 0, 1, 1), kernel("before", 5, 10, 1), call(LAUNCH, 24, 26, 2), kernel("k", 30, 40, 2)),
    *(call(LAUNCH, 46, 48, 3), kernel("l", 50, 60, 3), call(LAUNCH, 80, 85, 4), kernel("after", 90, 95, 4)),
]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        # The window's ends make gaps; what is beyond them still tells the cause.
        (
            "20/70",
            [
                (20, 30, "before", "k", {"host": 4, "launch": 6}),
                (40, 50, "k", "l", {"host": 6, "launch": 4}),
                (60, 70, "l", "after", {"host": 10}),
            ],
        ),
        ("55/", [(60, 90, "l", "after", {"host": 20, "launch": 10})]),
        ("/28", [(10, 28, "before", "k", {"host": 14, "launch": 4})]),
        ("55/83", [(60, 83, "l", "after", {"host": 20, "launch": 3})]),
        ("90/99", [(95, 99, "after", "-", {"host": 4})]),
        ("-9/7", [(-9, 5, "-", "before", {"host": 9, "launch": 5})]),
        ("30/40", []),
    ],
)  # fmt: skip
def test_a_selection_is_idle_up_to_its_ends(
    time: str, expected: list[tuple[int, int, str, str, dict[str, int]]], tmp_path: Path
) -> None:
    part = opened(tmp_path, *FOUR).select(time=time, clip=True)
    assert [(*ends, took) for ends, took in zip(at_ends(part), parts(part), strict=True)] == expected


def test_before_a_selection_ran_what_ended_last(tmp_path: Path) -> None:
    rows = [kernel("before", 0, 20), kernel("k", 5, 10), kernel("l", 60, 70)]
    assert at_ends(opened(tmp_path, *rows).select(time="30/65", clip=True)) == [(30, 60, "before", "l")]


def test_whole_rows_are_not_idle_where_they_reach_over_the_ends(tmp_path: Path) -> None:
    capture = opened(tmp_path, *FOUR)
    assert at_ends(capture.select(time="35/55", clip=False)) == [(40, 50, "k", "l")]
    part = capture.select(time="20/55", clip=False)
    assert at_ends(part) == [(20, 30, "before", "k"), (40, 50, "k", "l")]


def test_nothing_selected_and_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    nothing = opened(tmp_path / "none", call("x", 0, 1))
    for part in (opened(tmp_path, *FOUR).select(time="12/20", clip=True), nothing):
        found = gaps_of(part)
        assert (len(found), found.duration_ns.tolist()) == (0, [])
        assert {cause: list(part) for cause, part in found.parts.items()} == {cause: [] for cause in CAUSES}


def test_one_operation_has_no_gap(tmp_path: Path) -> None:
    assert len(gaps_of(opened(tmp_path, *FIRST))) == 0


def test_the_cause_is_what_took_most(tmp_path: Path) -> None:
    found = gaps_of(opened(tmp_path, *TWO, call(SYNC, 12, 38)))
    assert max(CAUSES, key=lambda cause: found.parts[cause].item()) == "synchronise"
    (tmp_path / "unknown").mkdir()
    found = gaps_of(opened(tmp_path / "unknown", *FIRST, kernel("k", 20, 21, 9)))
    assert max(CAUSES, key=lambda cause: found.parts[cause].item()) == "unknown"
    assert (found.thread.tolist(), found.call.tolist()) == ([MISSING], [-1])


# CPU   |L1|          |graph launch|
# GPU      k[10,20)          copy[60,70)
def test_a_graph_that_begins_with_a_copy_is_launched_all_the_same(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(call("cudaLaunchKernel", 0, 5, 1), kernel("k", 10, 20, 1)),
        *(call("cudaGraphLaunch", 40, 55, 2), memcpy(8, 60, 70, 8, correlationId=2, graphNodeId=7 << 32)),
    )
    parts = gaps_of(capture).parts
    assert (parts["host"].tolist(), parts["launch"].tolist()) == ([20], [20])


MAIN, OTHER = global_id(100, 100), global_id(100, 101)


def segments(
    folder: Path, *rows: Row, intervals: tuple[tuple[int, int, int], ...] = ((MAIN, 0, 100),)
) -> list[tuple[int, int, int, str]]:
    """Return interval, start, end and activity of each part of intervals (thread, start, end)."""
    thread, start, end = (np.array(values) for values in zip(*intervals, strict=True))
    window = int(start.min()), int(end.max())
    parts = ThreadActivity(opened(folder, *rows), window).segments(thread, start, end)
    return [
        (interval, begins, ends, ACTIVITIES[number])
        for interval, begins, ends, number in zip(*(part.tolist() for part in parts), strict=True)
    ]


def test_between_calls_the_host_works(tmp_path: Path) -> None:
    assert segments(tmp_path, call("cudaMalloc", 20, 50), call("cudaMemcpy", 60, 70)) == [
        (0, 0, 20, "host"),
        (0, 20, 50, "allocate"),
        (0, 50, 60, "host"),
        (0, 60, 70, "copy"),
        (0, 70, 100, "host"),
    ]


@pytest.mark.parametrize(
    ("name", "activity"),
    [
        ("cudaLaunchKernel_v7000", "launch"),
        ("cudaGraphLaunch_v10000", "launch"),
        ("cudaStreamSynchronize", "synchronise"),
        ("cudaMemcpyAsync", "copy"),
        ("cudaMemset", "copy"),
        ("cuModuleLoadData", "load"),
        ("cudaHostAlloc", "allocate"),
        ("cudaEventRecord", "call"),
    ],
)
def test_the_kind_of_call(name: str, activity: str, tmp_path: Path) -> None:
    assert segments(tmp_path, call(name, 20, 50))[1] == (0, 20, 50, activity)


def test_what_is_inside_a_call_counts_by_precedence(tmp_path: Path) -> None:
    # launch [10 ............................ 90)
    #   load      [20 .......... 50)
    #     profiler     [30, 40)     malloc [60, 70)   sync [75, 80) other [82, 85)
    overhead = {"globalTid": MAIN, "nameId": "buffer"}
    rows = [
        call("cudaLaunchKernel", 10, 90),
        call("cuLibraryLoadData", 20, 50),
        row("PROFILER_OVERHEAD", start=30, end=40, **overhead),
        call("cuMemAlloc_v2", 60, 70),
        call("cuStreamSynchronize", 75, 80),
        call("cuEventRecord", 82, 85),
    ]
    parts = {(start, end): activity for _, start, end, activity in segments(tmp_path, *rows)}
    at = {ns: next(what for (start, end), what in parts.items() if start <= ns < end) for ns in range(100)}
    expected = dict.fromkeys(range(100), "host") | dict.fromkeys(range(10, 90), "launch")
    for first, last, activity in (
        (20, 50, "load"),
        (30, 40, "profiler"),
        (60, 70, "allocate"),
        (75, 80, "synchronise"),
    ):
        expected |= dict.fromkeys(range(first, last), activity)
    assert at == expected


@pytest.mark.parametrize(("kind", "activity"), [(2, "load"), (6, "load"), (7, "load"), (8, "launch")])
def test_overhead_in_cuda(kind: int, activity: str, tmp_path: Path) -> None:
    event = row(
        "CUPTI_ACTIVITY_KIND_OVERHEAD", start=20, end=50, globalTid=MAIN, nameId="overhead", overheadType=kind
    )
    assert segments(tmp_path, call("cudaFree", 0, 5), event)[2] == (0, 20, 50, activity)


def test_threads_and_intervals_are_kept_apart(tmp_path: Path) -> None:
    rows = [call("cudaMalloc", 20, 50), call("cudaDeviceSynchronize", 0, 200, tid=101)]
    intervals = ((OTHER, 30, 60), (MAIN, 30, 60), (MAIN, 45, 45), (MAIN, 0, 25))
    assert segments(tmp_path, *rows, intervals=intervals) == [
        (0, 30, 60, "synchronise"),
        (1, 30, 50, "allocate"),
        (1, 50, 60, "host"),
        (3, 0, 20, "host"),
        (3, 20, 25, "allocate"),
    ]
