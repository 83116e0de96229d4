"""All that ran on GPUs in one table, and the calls behind it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_export import PID, call, enums, global_id, graph, kernel, memcpy, memset, opened, row

from nsyswrap.analysis.gpu_operations import (
    KINDS,
    gpu_operations_of,
    names,
    positions_of,
    previous_ends,
    window,
)
from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING
from nsyswrap.capture.selection import machine_ids

# CPU  L1[0,5) C2[6,9)         G4[20,25)
# GPU    kernel[10,20) copy[10,15) set[12,14) graph[30,40) migration[35,38)
ROWS = [
    *(call("cudaLaunchKernel", 0, 5, 1), kernel("k", 10, 20, 1)),
    *(call("cudaMemcpyAsync", 6, 9, 2), memcpy(1, 10, 15, 8, correlationId=2)),
    *(memset(12, 14, 8, correlationId=3), call("cudaGraphLaunch", 20, 25, 4), graph(30, 40, 4)),
    memcpy(11, 35, 38, 4096),
]


def test_one_table_in_order_of_start_then_kind(tmp_path: Path) -> None:
    found = gpu_operations_of(opened(tmp_path, *ROWS))
    assert [KINDS[i] for i in found.kind] == ["kernel", "memcpy", "memset", "graph", "memcpy"]
    assert list(zip(found.start_ns, found.end_ns, strict=True)) == [
        *((10, 20), (10, 15), (12, 14), (30, 40), (35, 38))
    ]
    assert found.row.tolist() == [0, 0, 0, 0, 1]
    assert found.call.tolist() == [0, 1, -1, 2, -1]  # of the memset none was recorded
    assert found.migration.tolist() == [False, False, False, False, True]
    assert set(found.global_pid.tolist()) == {global_id(PID)}


def test_names_are_those_of_the_view_and_of_nsys(tmp_path: Path) -> None:
    capture = opened(
        tmp_path, *ROWS, kernel("t<int>", 50, 60, 5, shortName="t"), memcpy(77, 70, 71, 1), *enums()
    )
    called = ["k", "[CUDA memcpy Host-to-Device]", "[CUDA memset]", "[CUDA graph]"]
    called += ["[CUDA memcpy Unified Host-to-Device]", "t<int>", "[CUDA memcpy kind 77]"]
    assert list(names(capture, gpu_operations_of(capture))) == called
    short = capture.viewed(names="base")
    assert list(names(short, gpu_operations_of(short).of(np.array([5])))) == ["t"]


def test_of_a_runtime_call_and_the_driver_call_below_it_the_outer_one_counts(tmp_path: Path) -> None:
    nested = [call("cuLaunchKernel", 2, 8, 1), call("cudaLaunchKernel", 1, 9, 1)]
    assert gpu_operations_of(opened(tmp_path, *nested, kernel("k", 10, 20, 1))).call.tolist() == [1]


def test_correlation_ids_repeat_between_processes(tmp_path: Path) -> None:
    rows = [call("cudaLaunchKernel", 0, 1, 1, pid=7), call("cudaLaunchKernel", 2, 3, 1)]
    found = gpu_operations_of(opened(tmp_path, *rows, kernel("a", 10, 20, 1), kernel("b", 30, 40, 1, pid=7)))
    assert found.call.tolist() == [1, 0]
    assert [(pid, device, mine.tolist()) for pid, device, mine in found.by_device()] == [
        (global_id(7), 0, [1]),
        (global_id(PID), 0, [0]),
    ]


def test_without_processes_the_correlation_id_alone_has_to_do(tmp_path: Path) -> None:
    capture = opened(tmp_path, *ROWS, without=["globalPid"])
    found = gpu_operations_of(capture)
    assert found.call.tolist() == [0, 1, -1, 2, -1]
    assert [(pid, device) for pid, device, _ in found.by_device()] == [(global_id(PID), 0)]


def test_nothing_on_a_gpu_is_an_empty_table(tmp_path: Path) -> None:
    found = gpu_operations_of(opened(tmp_path, call("cudaMalloc", 0, 1, 1)))
    assert (len(found), list(found.by_device())) == (0, [])


@pytest.mark.parametrize(
    ("time", "clip", "operations", "ends"),
    [
        ("", None, 5, (10, 40)),
        ("0/100", True, 5, (0, 50)),  # the capture ends there
        ("12/", True, 5, (12, 40)),
        ("/13", True, 3, (10, 13)),
        ("12/36", True, 5, (12, 36)),
        ("12/36", False, 5, (10, 40)),  # whole rows: the window has them all
        ("25/36", True, 2, (25, 36)),
        ("25/36", False, 2, (25, 40)),
    ],
)
def test_the_window_is_the_operations_or_the_selection(
    tmp_path: Path,
    time: str,
    clip: bool | None,  # noqa: FBT001 - a parameter of the test
    operations: int,
    ends: tuple[int, int],
) -> None:
    capture = opened(tmp_path, *ROWS, row("ANALYSIS_DETAILS", duration=50))
    part = capture.select(time=time, clip=clip) if time else capture
    assert len(gpu_operations_of(part)) == operations
    assert window(part, gpu_operations_of(part)) == ends


def test_rows_and_calls_are_positions_in_the_whole_capture(tmp_path: Path) -> None:
    part = opened(tmp_path, *ROWS).select(time="32/36", clip=True)
    found = gpu_operations_of(part)
    assert list(zip(found.start_ns, found.end_ns, strict=True)) == [(32, 36), (35, 36)]
    assert (found.row.tolist(), found.call.tolist()) == ([0, 1], [2, -1])


def last_ends(capture: CaptureReader) -> list[int | None]:
    return [None if end == MISSING else end for end in previous_ends(gpu_operations_of(capture)).tolist()]


def test_when_a_stream_was_last_busy(tmp_path: Path) -> None:
    # 7  a[0,10) b[2,5)    c[12,14)           of another context: [20,30)
    # 8           d[4,20)
    on_8 = {"streamId": 8}
    rows = [kernel("a", 0, 10, 1), memcpy(1, 2, 5, 8), memset(4, 20, 8, **on_8), kernel("c", 12, 14, 2)]
    rows += [kernel("e", 20, 30, 3, contextId=2), memcpy(11, 40, 50, 8), kernel("f", 60, 61, 4)]
    assert last_ends(opened(tmp_path, *rows)) == [None, 10, None, 10, None, None, 14]


def test_machines_are_told_apart() -> None:
    ids = [global_id(1), global_id(2, 5), global_id(1, hardware=2), global_id(1, hardware=255)]
    first, same, second, high = machine_ids(np.array(ids)).tolist()
    assert first == same
    assert len({first, second, high}) == 3


@pytest.mark.parametrize(
    "part",
    [
        {"process": 43},
        {"device": 1},
        {"device": 9},
        {"time": "14ns/31ns"},
        {"time": "14ns/31ns", "clip": False},
        {"time": "9ns/", "process": PID},
        {"time": "9ns/", "process": 43, "device": 1},
        {"time": "100ns/"},
    ],
)
@pytest.mark.parametrize("unknown", [False, True])
def test_what_is_selected_of_the_table_is_what_is_selected_of_each_kind(
    part: dict[str, Any], tmp_path: Path, *, unknown: bool
) -> None:
    more = [kernel("k", 5 * i, 5 * i + 7, 10 + i, pid=43 - i % 2, deviceId=i // 4) for i in range(8)]
    lost = [kernel("k", 16, 17, 30, globalPid=None)] if unknown else []
    capture = opened(tmp_path, *ROWS, *more, *lost).select(**part).decided()
    selected, every = gpu_operations_of(capture), gpu_operations_of(capture.whole)
    found = [(KINDS[kind], row) for kind, row in zip(selected.kind, selected.row.tolist(), strict=True)]
    rows = {kind: capture.columns(kind, "row", "start_ns", "end_ns") for kind in KINDS}
    times = {
        (kind, row - 1): span for kind, of in rows.items() for row, *span in zip(*of.values(), strict=True)
    }
    assert sorted(found) == sorted(times)
    spans = zip(selected.start_ns, selected.end_ns, strict=True)
    assert {one: list(span) for one, span in zip(found, spans, strict=True)} == times
    assert (np.diff(selected.start_ns) >= 0).all()
    assert every.row[positions_of(capture)].tolist() == selected.row.tolist()
