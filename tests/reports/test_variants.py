"""Several captures side by side, worked out on paper."""

from pathlib import Path

from tiny_export import Row, call, graph, kernel, memcpy, nvtx, opened

from nsyswrap.api import CaptureReader
from nsyswrap.render.formats import text
from nsyswrap.reports.scenario_tables import (
    gpu_by_variant,
    gpu_totals,
    profiler_by_variant,
    scenario_runs,
    timing_by_variant,
)


def variant(folder: Path, name: str, *rows: Row) -> CaptureReader:
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
    # the program's median, then launches, API, queue, kernel, copy and sync time per instance
    assert timing_by_variant({"sync": capture}, {"sync": {"timings": timings}}).rows() == [
        ("sync", "cuda", 1500.0, 1.0, 20.0, 50.0, 100.0, 0.0, 150.0),
        ("sync", "torch", 2000.0, None, None, None, None, None, None),
    ]


def test_a_variant_that_ran_without_nsys_has_only_what_it_measured() -> None:
    timings = [{"range": "x/y", "operator": "y", "median_us": 2.0}]
    assert timing_by_variant({}, {"x": {"timings": timings}}).rows() == [("x", "y", 2000.0, *[None] * 6)]


def test_what_profilers_in_the_programs_saw(tmp_path: Path) -> None:
    capture = variant(
        tmp_path,
        "under nsys",
        nvtx("nsys/a", 0, 1000),
        call("cudaLaunchKernel", 10, 30, 1),
        kernel("k", 80, 180, 1),
    )
    under_nsys = [{"range": "nsys/a", "operator": "a", "median_us": 1.5}]
    seen = {"launches": 9, "cpu_ops": 6, "kernels": 3, "kernel_median_us": 4.5}
    timings = [
        {"operator": "a", "median_us": 10.0, "profiler": seen},
        {"operator": "b", "median_us": 11.0, "profiler": {**seen, "kernels": 0, "kernel_median_us": None}},
        {"operator": "c", "median_us": 12.0, "profiler": None},  # left off
        {"operator": "d", "median_us": 13.0},
    ]
    measured = {"under nsys": {"timings": under_nsys}, "on": {"timings": timings}}
    # the program's median, launches made, operators and kernels seen, the kernels' median, and nsys' median
    assert profiler_by_variant({"under nsys": capture}, measured).rows() == [
        ("on", "a", 10000.0, 9, 6, 3, 4500.0, 100.0),
        ("on", "b", 11000.0, 9, 6, 0, None, None),
    ]


def test_whole_graphs_count_as_launches(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        kernel("k", 20, 120, 1),
        call("cudaLaunchKernel", 0, 10, 1),
        graph(220, 290, 2),
        call("cudaGraphLaunch", 200, 205, 2),
    )
    totals = gpu_totals(capture)
    assert (totals["kernels"], totals["kernel_ns"]) == (1, 100)
    assert (totals["graphs"], totals["graph_ns"], totals["launch_ns"]) == (1, 70, 15)


def test_every_run_has_a_row_and_those_without_a_capture_no_numbers(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 20, 120, 1), call("cudaLaunchKernel", 0, 10, 1))
    runs = [("add", "grid", "done", capture), ("p2p", "direct", "skipped: one GPU", None)]
    assert scenario_runs(runs).rows() == [
        ("add", "grid", "done", 1, 100, 0, 0, 10, 0, 0, 0),
        ("p2p", "direct", "skipped: one GPU", *[None] * 8),
    ]
