"""nsys' own reports on tiny exports, against the CSV worked out on paper."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nsys_says import NAMED, RULES, said_by
from report_tables import capture_of, names_of, notes_of, notes_text, rows_of
from tiny_export import (
    COPY_KINDS,
    MPI_COLLECTIVE,
    MPI_OTHER,
    MPI_P2P,
    OPENMP,
    PID,
    UM_CPU_FAULT,
    UM_GPU_FAULT,
    Row,
    call,
    domain,
    enums,
    global_id,
    graph,
    kernel,
    memcpy,
    memset,
    nvtx,
    on_cpu,
    opened,
    row,
    um_cpu_fault,
    um_gpu_fault,
)

from nsyswrap.analysis.arrays.spans import Spans, closest, enclosures, paths, tree
from nsyswrap.analysis.nvtx_ranges import counted_ranges, kernel_ranges, nested_ranges, texts_and_domains
from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.units import Rounding
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
from nsyswrap.reports.table import Table


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


MS = 10**6


def test_without_any_work_there_is_nothing_to_find(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, MS))
    assert rows_of(capture, "gpu_gaps") == rows_of(capture, "gpu_time_util") == []


def test_whole_graphs_are_no_work_to_nsys_and_that_is_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 1, 2), graph(10, 600 * MS, 1), kernel("k", 601 * MS, 602 * MS))
    for rule in RULES[4:]:
        assert len(rows_of(capture, rule)) == 1
        assert "whole-graph executions (1) do not count as busy" in notes_text(capture, rule)


def test_a_trimmed_export_has_one_process_and_no_contexts(tmp_path: Path) -> None:
    trimmed = ["globalPid", "contextId"]
    capture = opened(tmp_path, kernel("k", 1, 5), kernel("k", 2 * MS, 3 * MS), without=trimmed)
    assert rows_of(capture, "gpu_gaps:gap=1") == [f"1,{2 * MS - 5},5,,0,"]
    assert rows_of(capture, "gpu_time_util:chunks=2") == [f"1,0.0,{MS * 3 // 2},1,,0,"]


def test_one_operation_leaves_nothing_to_say(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 10, 10))
    assert rows_of(capture, "gpu_gaps:gap=0") == rows_of(capture, "gpu_time_util:threshold=101") == []


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("gpu_time_util:chunks=0", "at least 1 and at most 1000"),
        ("gpu_time_util:chunks=1001", "at least 1 and at most 1000"),
        ("gpu_gaps:gap=-1", "at least 0"),
        ("gpu_gaps:chunks=3", "options: rows=N, gap=N"),
    ],
)
def test_options_out_of_range(asked: str, hint: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 10, 20))
    with pytest.raises(UsageError) as caught:
        parse(asked).make(capture)
    assert caught.value.hint == hint


USED: dict[str, Any] = {"registersPerThread": 16, "staticSharedMemory": 1024, "dynamicSharedMemory": 0}
GREEN: dict[str, Any] = {"greenContextId": None}


@pytest.mark.parametrize("report", ["cuda_kern_exec_trace", "cuda_kern_exec_sum"])
def test_kernels_without_their_process_meet_their_calls_all_the_same(report: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, call("launch", 0, 5, 1), kernel("k", 9, 10, 1), without=["globalPid"])
    for _ in range(2):  # the join is made once; it is said each time
        assert rows_of(capture, report)[0].endswith(",k")
        [note] = notes_of(capture, report)
        assert "globalPid" in note


@pytest.mark.parametrize("report", NAMED)
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


@pytest.mark.parametrize("report", NAMED)
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


TO_DEVICE, TO_HOST = 11, 12
FAULTS = (UM_CPU_FAULT, UM_GPU_FAULT)


def migrated(kind: int, address: int | None, size: int, duration: int) -> Row:
    return memcpy(kind, 0, duration, size, virtualAddress=address)


def test_migrations_of_an_export_without_addresses(tmp_path: Path) -> None:
    pages = [memcpy(TO_DEVICE, 0, 10, 100), memcpy(TO_DEVICE, 0, 10, 100), memcpy(TO_HOST, 0, 50, 300)]
    capture = capture_of(tmp_path, *pages, um_cpu_fault(1, 0), um_gpu_fault(1, 0, 1))
    assert rows_of(capture, "um_sum") == [",0.000,,,,10000.000", ",,0.000,,,6000.000", "0x1,,,1,1,"]
    [note] = capture.report("um_total_sum").notes
    assert "no virtualAddress (nsys 2022.1 or newer writes it)" in note


def test_tables_without_rows_may_mean_that_nobody_looked(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, migrated(TO_DEVICE, 4096, 100, 10), empty=FAULTS)
    for name in ("um_sum", "um_total_sum"):
        [note] = capture.report(name).notes
        assert note.startswith("no page faults in this capture: none occurred, or they were not traced")
    assert rows_of(capture, "um_total_sum") == ["0.000,,0,,,"]


def test_faults_of_the_cpu_stand_in_every_window_unless_rows_are_cut(tmp_path: Path) -> None:
    faults = [um_cpu_fault(4096, 5), um_cpu_fault(4096, 50), um_gpu_fault(4096, 50, 60)]
    capture = capture_of(tmp_path, *faults, migrated(TO_DEVICE, 4096, 100, 10))
    whole, cut = capture.select(time="/20"), capture.select(time="/20", clip=True)
    note = "CPU page faults have no end time, so those outside the window also count (not with --clip yes)"
    for name, column, all_rows, part in (
        ("um_sum", 3, "2", "1"),
        ("um_total_sum", 2, "2", "1"),
        ("um_cpu_page_faults_sum", 0, "2", "1"),
    ):
        for seen, number, notes in ((capture, all_rows, ()), (whole, all_rows, (note,)), (cut, part, ())):
            assert rows_of(seen, name)[0].split(",")[column] == number
            assert seen.report(name).notes == notes


RANK = row("MPI_RANKS", globalTid=global_id(PID, PID), rank=3)


def never_ended(call: Row) -> Row:
    return call._replace(cells={**call.cells, "end": None})


def test_mpi_calls_that_never_ended_are_counted_and_have_no_time(tmp_path: Path) -> None:
    calls = [on_cpu(MPI_P2P, "MPI_Recv", 0, 30), on_cpu(MPI_P2P, "MPI_Recv", 40, 50), RANK]
    waits = never_ended(on_cpu(MPI_COLLECTIVE, "MPI_Barrier", 60, 0))
    capture = capture_of(tmp_path, *calls[:1], never_ended(calls[1]), waits, RANK)
    assert rows_of(capture, "mpi_event_sum") == [
        "100.0,30,2,30.0,30.0,30,30,0.0,p2p,MPI_Recv",
        ",,1,,,,,0.0,collectives,MPI_Barrier",
    ]
    assert rows_of(capture, "mpi_event_trace") == [
        "0,30,30,MPI_Recv,100,100,,3,,,,,",
        "40,,,MPI_Recv,100,100,,3,,,,,",
        "60,,,MPI_Barrier,100,100,,3,,,,,",
    ]


def test_one_process_of_several(tmp_path: Path) -> None:
    calls = [
        on_cpu(MPI_OTHER, name, 0, 10, globalTid=global_id(pid, pid)) for name, pid in [("a", 1), ("b", 2)]
    ]
    ranks = [row("MPI_RANKS", globalTid=global_id(pid, pid), rank=pid * 10) for pid in (1, 2)]
    chosen = capture_of(tmp_path, *calls, *ranks).select(process=2)
    assert rows_of(chosen, "mpi_event_trace") == ["0,10,10,b,2,2,,20,,,,,"]
    assert rows_of(chosen, "mpi_event_sum") == ["100.0,10,1,10.0,10.0,10,10,0.0,other,b"]


def test_events_of_several_tables_are_one_kind(tmp_path: Path) -> None:
    calls = [on_cpu("OPENMP_EVENT_KIND_TASK", "task", 5, 8), on_cpu(OPENMP, "region", 0, 10)]
    frame = capture_of(tmp_path, *calls).events("openmp")
    assert frame[["name", "start_ns", "duration_ns", "thread_id"]].to_numpy().tolist() == [
        ["region", 0, 10, PID],
        ["task", 5, 3, PID],
    ]


ELSEWHERE = global_id(PID, 101)


def spans(*triples: tuple[int, int, int]) -> Spans:
    """Spans of (thread, start, end)."""
    return Spans(*(np.array(column) for column in zip(*triples, strict=True)))


def any_spans(dice: random.Random, number: int) -> list[tuple[int, int, int]]:
    starts = [dice.randrange(40) for _ in range(number)]
    return [(dice.randrange(3), start, start + dice.choice((0, 1, 5, 30))) for start in starts]


def column(table: Table, name: str) -> list[object]:
    return list(table.frame[name])


@pytest.mark.parametrize("seed", range(20))
def test_every_pair_is_found_once(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - no secret
    inner, outer = any_spans(dice, 60), any_spans(dice, 40)
    found = enclosures(spans(*inner), spans(*outer))
    expected = [
        (i, o)
        for i, (thread, start, end) in enumerate(inner)
        for o, (other, begins, until) in enumerate(outer)
        if thread == other and begins <= start and until >= end
    ]
    assert sorted(zip(*(numbers.tolist() for numbers in found), strict=True)) == expected
    nearest = closest(spans(*inner), spans(*outer), np.array([end - start for _, start, end in outer]))
    for i, best in enumerate(nearest.tolist()):
        holders = [(outer[o][2] - outer[o][1], o) for held, o in expected if held == i]
        assert best == min(holders, default=(0, -1))[1]


def test_what_is_unknown_lies_in_nothing_and_holds_nothing() -> None:
    known, endless, nowhere = (1, 5, 6), (1, 0, MISSING), (MISSING, 0, 9)
    assert enclosures(spans(known), spans(endless, nowhere))[0].tolist() == []
    assert enclosures(spans(endless, nowhere), spans((1, 0, 9)))[0].tolist() == []


def test_ranges_nest_in_the_tightest_one() -> None:
    nested = tree(spans((1, 0, 90), (1, 10, 80), (1, 20, 30), (1, 75, 85), (2, 20, 30)))
    assert nested.parent.tolist() == [-1, 0, 1, 0, -1]  # the fourth only overlaps the second
    assert nested.depth.tolist() == [0, 1, 2, 1, 0]
    assert nested.top.tolist() == [0, 0, 0, 0, 4]
    assert paths(nested, np.array([1, 4, 5, 6, 9])) == [":1", ":1:4", ":1:4:5", ":1:6", ":9"]


def test_ranges_of_the_same_times_have_no_depth() -> None:
    nested = tree(spans((1, 0, 90), (1, 10, 80), (1, 10, 80), (1, 20, 30), (1, 85, 86)))
    assert nested.parent.tolist() == [-1, 2, 1, 1, 0]
    assert nested.depth.tolist() == [0, MISSING, MISSING, MISSING, 1]
    assert paths(nested, np.arange(5)) == [":0", None, None, None, ":0:4"]


def test_a_deep_stack() -> None:
    depth = 1000
    nested = tree(spans(*((1, i, 2 * depth - i) for i in range(depth))))
    assert nested.depth.tolist() == list(range(depth))
    assert set(nested.top.tolist()) == {0}


@pytest.mark.parametrize(
    ("rounding", "names"),
    [
        ("2025", ["own:a", ":a", "registered:b", ":c", ":", "own:", ":a"]),
        ("legacy", ["own:a", "a", "b", "c", None, None, "a"]),
    ],
)
def test_names(rounding: Rounding, names: list[str | None], tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        domain("own", 1),
        domain("too late", 1, start=5),
        domain(None, 2, textId="registered"),
        domain("of another process", 3, pid=200),
        nvtx("a", 1, 2, domainId=1),
        nvtx("a", 1, 2),
        nvtx(None, 1, 2, textId="b", domainId=2),
        nvtx("hidden", 1, 2, textId="c", domainId=3),
        nvtx(None, 1, 2, textId=7),  # StringIds has no 7
        nvtx(None, 1, 2, domainId=1),
        nvtx("a", 1, 2, domainId=None),
        nvtx("a mark", 1, None, eventType=34),
    ).viewed(rounding=rounding)
    for ranges in (counted_ranges(capture), nested_ranges(capture)):
        assert list(ranges.labels(ranges.code)) == names
        assert ranges.names == sorted(set(names) - {None})  # type: ignore[type-var]
        assert ranges.row.tolist() == [5, 6, 7, 8, 9, 10, 11]


def test_a_domain_has_the_name_with_which_it_was_created_first(tmp_path: Path) -> None:
    """nsys' own reports count its ranges for both; a range is selected by one name."""
    capture = opened(tmp_path, domain("x", 1), domain("y", 1, start=5), nvtx("a", 0, 10, domainId=1))
    assert texts_and_domains(capture, np.array([2]))[1] == [("a", "x")]


def test_a_domain_of_several_threads_counts_its_ranges_several_times(tmp_path: Path) -> None:
    capture = opened(tmp_path, domain("x", 1), domain("y", 1, tid=101), nvtx("a", 0, 10, domainId=1))
    sums = capture.report("nvtx_sum")
    assert column(sums, "range") == ["x:a", "y:a"]
    assert column(sums, "total_ns") == [10, 10]
    assert sums.notes == (
        "several threads created the same NVTX domain; its ranges count once per thread, as in nsys",
    )
    trace = capture.report("nvtx_pushpop_trace")
    assert column(trace, "name") == ["x:a"]
    assert trace.notes == (
        "several threads created the same NVTX domain; its ranges count once; nsys fails on such a capture",
    )


def test_a_domain_of_no_thread_names_no_range(tmp_path: Path) -> None:
    created = domain("library", 1, globalTid=None)
    rows = [created, nvtx("a", 0, 5, domainId=1, globalTid=None), nvtx("b", 0, 5, domainId=1)]
    ranges = counted_ranges(opened(tmp_path, *rows))
    assert list(ranges.labels(ranges.code)) == [":a", ":b"]


def test_a_range_that_never_ended_lasts_to_the_last_event(tmp_path: Path) -> None:
    capture = opened(tmp_path, nvtx("open", 10, None), nvtx("a", 20, 40), nvtx("m", 70, None, eventType=34))
    sums = capture.report("nvtx_sum")
    assert dict(zip(column(sums, "range"), column(sums, "total_ns"), strict=True)) == {":open": 60, ":a": 20}
    assert sums.notes == ("NVTX ranges without an end: 1; they end at the last NVTX event, as in nsys",)
    trace = capture.report("nvtx_pushpop_trace")  # of which marks are no part
    assert column(trace, "end_ns") == [40, 40]
    assert column(trace, "level") == [0, 1]


def test_the_times_of_ranges_are_missing_where_none_ended(tmp_path: Path) -> None:
    capture = opened(tmp_path, nvtx("open", 10, None))
    rows = capture.report("nvtx_sum").rows()
    assert rows == [(None, None, 1, None, None, None, None, 0.0, "PushPop", ":open")]
    [trace] = capture.report("nvtx_pushpop_trace").rows()
    assert trace[:5] == (10, None, None, 0, None)


def test_sums_tell_styles_apart(tmp_path: Path) -> None:
    ranges = [nvtx("a", 0, 10 * kind, eventType=kind) for kind in (59, 60, 70, 71)]
    capture = opened(tmp_path, *ranges)
    both = capture.report("nvtx_sum")
    assert column(both, "style") == ["StartEnd", "PushPop"]
    assert column(both, "total_ns") == [1310, 1290]
    assert column(capture.report("nvtx_pushpop_sum"), "total_ns") == [1290]
    assert column(capture.report("nvtx_startend_sum"), "total_ns") == [1310]


def test_the_range_around_a_kernel(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("outer", 0, 100), nvtx("inner", 10, 50), nvtx(None, 60, 80), nvtx("other", 0, 99, tid=101)),
        nvtx("ends elsewhere", 15, 49, eventType=60, endGlobalTid=ELSEWHERE),
        *(call("launch", 20, 30, 1), kernel("in inner", 200, 210, 1)),
        *(call("launch", 52, 58, 2), kernel("in outer", 200, 210, 2)),
        *(call("launch", 95, 101, 3), kernel("outside", 200, 210, 3)),
        kernel("without a call", 200, 210, 4),
        *(call("launch", 62, 68, 5), kernel("in one without a name", 200, 210, 5)),
        *(call("run", 5, 40, 6), call("drive", 11, 39, 6), kernel("called twice", 200, 210, 6)),
    )
    codes, names = kernel_ranges(capture)
    around = [names[code] if code >= 0 else None for code in codes.tolist()]
    assert around == ["inner", "outer", None, None, None, "inner"]


def test_ranges_and_launches_outside_of_a_part_still_name_its_kernels(tmp_path: Path) -> None:
    launched = [call("launch", 1, 2, 1), kernel("early", 3, 4), kernel("late", 50, 60, 1)]
    capture = opened(tmp_path, nvtx("a", 0, 9), *launched)
    assert kernel_ranges(capture)[0].tolist() == [-1, 0]
    assert kernel_ranges(capture.select(time="50/60"))[0].tolist() == [0]


def test_projections(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("outer", 0, 100), nvtx("graph", 10, 30), nvtx("copy", 40, 60), nvtx("idle", 70, 90)),
        call("cudaGraphLaunch", 11, 20, 1),
        *(kernel("k", 200, 210, 1), kernel("k", 230, 250, 1)),
        *(call("cudaMemcpyAsync", 41, 50, 2), memcpy(1, 300, 340, 8, correlationId=2)),
    )
    trace = capture.report("nvtx_gpu_proj_trace")
    assert trace.rows() == [
        (":outer", 200, 140, 0, 100, "PushPop", 100, 100, 2, 0, 2, 1, None, ":1"),
        (":graph", 200, 50, 10, 20, "PushPop", 100, 100, 1, 1, 0, 2, 1, ":1:2"),
        (":copy", 300, 40, 40, 20, "PushPop", 100, 100, 1, 1, 0, 3, 1, ":1:3"),
    ]
    sums = capture.report("nvtx_gpu_proj_sum")
    assert column(sums, "range") == [":outer", ":graph", ":copy"]
    assert [row[2:5] for row in sums.rows()] == [(140, 100, 1), (50, 20, 1), (40, 20, 1)]
    assert [row[-4:] for row in sums.rows()] == [(2, 2.0, 0.0, 2.0), (1, 1.0, 1.0, 0.0), (1, 1.0, 1.0, 0.0)]


def test_ranges_of_the_same_times_are_projected_without_a_level(tmp_path: Path) -> None:
    launched = [call("launch", 12, 13, 1), kernel("k", 30, 40, 1)]
    capture = opened(tmp_path, nvtx("a", 10, 20), nvtx("b", 10, 20), *launched)
    assert [row[9:] for row in capture.report("nvtx_gpu_proj_trace").rows()] == [
        (None, 1, 1, None, None),
        (None, 1, 2, None, None),
    ]
    assert [row[-2] for row in capture.report("nvtx_gpu_proj_sum").rows()] == [None, None]


def test_a_range_that_ended_on_another_thread_counts_in_sums_alone(tmp_path: Path) -> None:
    moved = nvtx("a", 0, 50, eventType=60, endGlobalTid=ELSEWHERE)
    capture = opened(tmp_path, moved, call("launch", 12, 13, 1), kernel("k", 30, 40, 1))
    assert column(capture.report("nvtx_startend_sum"), "total_ns") == [50]
    assert capture.report("nvtx_gpu_proj_trace").rows() == []
    assert column(capture.report("nvtx_kern_sum"), "range") == [None]


def test_no_ranges_at_all(tmp_path: Path) -> None:
    capture = opened(
        tmp_path, kernel("k", 5, 9, 1), call("launch", 0, 4, 1), nvtx("m", 0, None, eventType=34)
    )
    assert column(capture.report("nvtx_kern_sum"), "range") == [None]
    assert kernel_ranges(capture)[0].tolist() == [-1]


def test_ranges_that_were_not_collected(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 5, 9, 1), call("launch", 0, 4, 1))
    with pytest.raises(NotInCapture, match="no NVTX events in this capture"):
        kernel_ranges(capture)
