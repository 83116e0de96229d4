"""nsys' own reports on tiny exports, against the CSV worked out on paper."""

from pathlib import Path

import pytest
from report_tables import names_of, rows_of
from tiny_export import COPY_KINDS, call, kernel, memcpy, memset, nvtx, opened, row

from nsyswrap.capture.selection import KernelNames


@pytest.mark.parametrize(
    ("names", "seen"), [("full", "void f<int>(T)"), ("base", "f"), ("mangled", "_Z1fIiEvT_")]
)
def test_kernels_are_called_as_asked(tmp_path: Path, names: KernelNames, seen: str) -> None:
    named = kernel("void f<int>(T)", 0, 5, shortName="f", mangledName="_Z1fIiEvT_")
    capture = opened(tmp_path, named, names=names)
    for report in ("cuda_gpu_kern_sum", "cuda_gpu_sum"):
        assert names_of(capture, report) == [seen]


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaGraphLaunch_v10000", "cudaGraphLaunch_v10000"),
        ("cuMemAlloc_v2", "cuMemAlloc_v2"),
        ("cudaMemcpy_v3020_ptsz", "cudaMemcpy_v3020_ptsz"),
    ],
)
def test_a_version_of_four_digits_is_cut_off(tmp_path: Path, recorded: str, shown: str) -> None:
    capture = opened(tmp_path, call(recorded, 0, 10, 1), kernel("k", 20, 30, 1))
    assert names_of(capture, "cuda_api_sum") == [shown]
    assert rows_of(capture, "cuda_kern_exec_sum")[0].endswith(f",{shown},k")


@pytest.mark.parametrize("report", ["cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"])
def test_memory_operations_of_equal_total_stand_by_name(tmp_path: Path, report: str) -> None:
    capture = opened(tmp_path, memset(0, 5, 5), memcpy(9, 0, 5, 5), memcpy(8, 0, 5, 5), memcpy(2, 0, 5, 5))
    between = ["Device-to-Device", "Device-to-Host", "Host-to-Host"]
    assert names_of(capture, report) == [*(f"[CUDA memcpy {label}]" for label in between), "[CUDA memset]"]


@pytest.mark.parametrize("report", ["cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_gpu_sum"])
def test_copies_are_called_as_the_export_calls_them_and_dropped_where_it_does_not(
    tmp_path: Path, report: str
) -> None:
    label = row(COPY_KINDS, id=1, name="H2D", label="to the Device")
    capture = opened(tmp_path, memcpy(1, 0, 5, 5), memcpy(2, 0, 90, 90), label)
    assert names_of(capture, report) == ["[CUDA memcpy to the Device]"]


def test_kernels_without_a_process_are_noted_where_names_begin_with_ranges(tmp_path: Path) -> None:
    launched = [call("cudaLaunchKernel", 0, 1, 1), kernel("k", 1, 5, 1, globalPid=None)]
    capture = opened(tmp_path, *launched, memcpy(1, 6, 7, 5), nvtx("a", 0, 9))
    ranged = capture.viewed(nvtx_names=True)
    views = ((ranged, "cuda_gpu_kern_sum"), (capture, "cuda_gpu_kern_sum"), (ranged, "cuda_gpu_mem_time_sum"))
    noted = ["process id" in " ".join(view.report(report).notes) for view, report in views]
    assert noted == [True, False, False]
