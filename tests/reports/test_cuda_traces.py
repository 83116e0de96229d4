"""nsys' traces of CUDA, and the summaries by grid and of everything, on tiny exports worked out on paper."""

from pathlib import Path
from typing import Any

import pytest
from report_tables import notes_of, rows_of
from tiny_export import call, kernel, nvtx, opened

from nsyswrap.base.errors import NotInCapture

USED: dict[str, Any] = {"registersPerThread": 16, "staticSharedMemory": 1024, "dynamicSharedMemory": 0}
GREEN: dict[str, Any] = {"greenContextId": None}


@pytest.mark.parametrize("report", ["cuda_kern_exec_trace", "cuda_kern_exec_sum"])
def test_kernels_without_their_process_meet_their_calls_all_the_same(report: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, call("launch", 0, 5, 1), kernel("k", 9, 10, 1), without=["globalPid"])
    for _ in range(2):  # the join is made once; it is said each time
        assert rows_of(capture, report)[0].endswith(",k")
        [note] = notes_of(capture, report)
        assert "globalPid" in note


RANGED = (
    "cuda_gpu_kern_sum",
    "cuda_gpu_kern_gb_sum",
    "cuda_gpu_sum",
    "cuda_api_gpu_sum",
    "cuda_kern_exec_sum",
    "cuda_kern_exec_trace",
    "cuda_gpu_trace",
)


@pytest.mark.parametrize("report", RANGED)
def test_kernels_are_named_after_the_range_around_their_launch(report: str, tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        nvtx("outer", 0, 100),
        nvtx("inner", 5, 30),
        *(call("launch", 10, 20, 1), kernel("k", 200, 210, 1, shortName="s", **USED, **GREEN)),
        *(call("launch", 40, 50, 2), kernel("k", 220, 230, 2, shortName="s", **USED, **GREEN)),
        *(call("launch", 101, 102, 3), kernel("k", 240, 250, 3, shortName="s", **USED, **GREEN)),
        *(call("launch", 60, 61, 4), kernel(7, 260, 270, 4, shortName=7, **USED, **GREEN)),
    )
    asked = {f"{report}:nvtx-name": "k", f"{report}:nvtx-name:base": "s", f"{report}:base:nvtx-name": "s"}
    for name, shown in asked.items():
        seen = sorted(line.rpartition(",")[2] for line in rows_of(capture, name))
        expected = {"", shown, f"inner/{shown}", f"outer/{shown}"}
        assert set(seen) - {"launch"} == expected


@pytest.mark.parametrize("report", RANGED)
def test_ranges_that_were_not_collected_cannot_name_a_kernel(report: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, call("launch", 0, 5, 1), kernel("k", 9, 10, 1, **USED))
    with pytest.raises(NotInCapture, match="no NVTX events") as caught:
        rows_of(capture, f"{report}:nvtx-name")
    assert "--trace cuda,nvtx" in caught.value.hint


@pytest.mark.parametrize("report", ["cuda_gpu_trace", "cuda_api_trace", "cuda_kern_exec_trace"])
def test_a_window_leaves_rows_whole(report: str, tmp_path: Path) -> None:
    rows = [call("launch", 0, 50, 1), kernel("k", 60, 90, 1, **USED, **GREEN)]
    late = [call("launch", 500, 550, 2), kernel("k", 560, 590, 2, **USED, **GREEN)]
    capture = opened(tmp_path, *rows, *late)
    assert len(rows_of(capture, report)) == 2
    assert rows_of(capture.select(time="40/70"), report) == rows_of(capture, report)[:1]
