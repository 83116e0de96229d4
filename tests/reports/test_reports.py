"""nsys' own reports on tiny exports, against the CSV worked out on paper."""

from pathlib import Path

import pytest
from nsys_says import RULES, said_by
from report_tables import names_of, notes_text, rows_of
from tiny_export import COPY_KINDS, Row, call, enums, graph, kernel, memcpy, memset, nvtx, opened, row

from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import NotInCapture
from nsyswrap.capture.selection import KernelNames
from nsyswrap.render.formats import text
from nsyswrap.reports import parse
from nsyswrap.reports.scenario_tables import (
    gpu_by_variant,
    gpu_totals,
    profiler_by_variant,
    scenario_runs,
    timing_by_variant,
)


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


def copied(start: int, end: int, correlation: int = 1, **more: object) -> Row:
    """A copy of 2.5 MB from pageable memory to a device, by call 1 if not said otherwise."""
    kinds = {"srcKind": 0, "dstKind": 2, "greenContextId": 0, "correlationId": correlation}
    return memcpy(1, start, end, 2_500_000, **{**kinds, **more})


ASYNC, SYNC = call("cudaMemcpyAsync_v3020", 0, 5, 1), call("cudaMemcpy_v3020", 0, 5, 1)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("cudaMemcpyAsync", "cuda_memcpy_async"),
        ("cudaMemcpy2DFromArrayAsync_ptsz", "cuda_memcpy_async"),
        ("CUDAMEMCPYPEERASYNC", "cuda_memcpy_async"),
        ("cudaMemcpy", "cuda_memcpy_sync"),
        ("cudaMemcpyToSymbol_v3020", "cuda_memcpy_sync"),
        ("cuMemcpyHtoDAsync_v2", ""),
        ("my_cudaMemcpyAsync", ""),
        ("cudaLaunchKernel", ""),
    ],
)
def test_which_calls_copy_and_how(name: str, rule: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, call(name, 0, 5, 1), copied(10, 20), *enums())
    found = [asked for asked in RULES[:2] if rows_of(capture, asked)]
    assert found == [rule] * bool(rule)


@pytest.mark.parametrize("rule", RULES[:4])
def test_a_capture_without_calls_cannot_answer(rule: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, copied(10, 20), memset(0, 5, 1, greenContextId=0), *enums())
    with pytest.raises(NotInCapture, match=f"{rule}: .* holds no CUDA API calls"):
        parse(rule).make(capture)


def test_an_export_that_does_not_say_what_memory_it_was(tmp_path: Path) -> None:
    done = memset(0, 5, 1, correlationId=1)
    capture = opened(
        tmp_path, ASYNC, copied(10, 20), done, *enums(), without=["srcKind", "dstKind", "memKind"]
    )
    for rule in ("cuda_memcpy_async", "cuda_memset_sync"):
        assert rows_of(capture, rule) == []
        assert "memory kinds are unknown" in notes_text(capture, rule)


def old(folder: Path) -> CaptureReader:
    """An export of the time before green contexts and labels."""
    rows = [
        SYNC,
        ASYNC,
        call("cudaMemset", 0, 5, 1),
        copied(10, 20),
        memset(0, 5, 1, memKind=1, correlationId=1),
    ]
    return opened(folder, *rows, without=["greenContextId"])


@pytest.mark.parametrize("rule", RULES[:3])
def test_old_exports_are_answered_and_what_they_lack_is_said(rule: str, tmp_path: Path) -> None:
    capture = old(tmp_path)
    [line] = rows_of(capture, rule)
    assert ",0,1,,7," in line
    assert "Pageable,Device" in line or "Pinned" in line
    notes = notes_text(capture, rule)
    assert "no greenContextId" in notes
    assert "the export has no ENUM_CUDA_MEM_KIND" in notes


def test_nsys_refuses_them(tmp_path: Path, nsys: str) -> None:
    assert set(said_by(nsys, old(tmp_path).path, RULES[:3]).values()) == {""}
