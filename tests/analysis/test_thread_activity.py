"""What threads were doing, worked out on paper."""

from pathlib import Path

import numpy as np
import pytest
from tiny_export import Row, call, global_id, opened, row

from nsyswrap.analysis.gpu_gaps import ACTIVITIES, ThreadActivity

MAIN, OTHER = global_id(100, 100), global_id(100, 101)


def segments(
    folder: Path, *rows: Row, intervals: tuple[tuple[int, int, int], ...] = ((MAIN, 0, 100),)
) -> list[tuple[int, int, int, str]]:
    """Return interval, start, end and activity of each part of intervals (thread, start, end)."""
    thread, start, end = (np.array(values) for values in zip(*intervals, strict=True))
    parts = ThreadActivity(opened(folder, *rows)).segments(thread, start, end)
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
