"""Several captures side by side, worked out on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiny_export import Row, call, kernel, memcpy, nvtx, opened

from nsyswrap.formats import text
from nsyswrap.variants import gpu_by_variant, timing_by_variant

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.capture import Capture


def variant(folder: Path, name: str, *rows: Row) -> Capture:
    (folder / name).mkdir()
    return opened(folder / name, *rows)


def test_gpu_work_of_each_variant(tmp_path: Path) -> None:
    one = (kernel("k", 20, 120, 1), call("cudaLaunchKernel", 0, 10, 1), memcpy(11, 0, 7, 4096))
    twice = (*one[:2], kernel("k", 220, 320, 2), call("cudaLaunchKernel", 200, 230, 2))
    captures = {"one": variant(tmp_path, "one", *one), "twice": variant(tmp_path, "twice", *twice)}
    # kernels, their time, time in launch calls, copies, their bytes and time
    assert gpu_by_variant(captures).rows() == [
        ("one", 1, 100, 10, 1, 4096, 7),
        ("twice", 2, 200, 40, 0, 0, 0),
    ]


def test_a_variant_that_did_nothing_has_a_row_of_zeros(tmp_path: Path) -> None:
    assert gpu_by_variant({"idle": variant(tmp_path, "idle", nvtx("a", 0, 5))}).rows() == [
        ("idle", 0, 0, 0, 0, 0, 0)
    ]


def test_kernels_whose_calls_were_not_recorded(tmp_path: Path) -> None:
    captures = {"x": variant(tmp_path, "x", kernel("k", 0, 5, 1))}
    assert gpu_by_variant(captures).rows() == [("x", 1, 5, None, 0, 0, 0)]


def test_no_variants() -> None:
    table = gpu_by_variant({})
    assert table.rows() == []
    assert "no rows" in text.render([table])["gpu_by_variant.txt"]


def test_what_python_measured_beside_what_nsys_saw(tmp_path: Path) -> None:
    capture = variant(
        tmp_path,
        "sync",
        nvtx("sync/cuda", 0, 1000),
        call("cudaLaunchKernel", 10, 30, 1),
        kernel("k", 80, 180, 1),
        call("cudaDeviceSynchronize", 40, 190),
    )
    timings = [
        {"range": "sync/cuda", "operator": "cuda", "median_us": 1.5},
        {"range": "sync/torch", "operator": "torch", "median_us": 2.0},
    ]
    # Python's median, then launches, API, queue, kernel and sync time per instance
    assert timing_by_variant({"sync": capture}, {"sync": {"timings": timings}}).rows() == [
        ("sync", "cuda", 1500.0, 1.0, 20.0, 50.0, 100.0, 150.0),
        ("sync", "torch", 2000.0, None, None, None, None, None),
    ]
