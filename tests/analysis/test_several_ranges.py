"""What several NVTX ranges of one name select: the union of their times, each nanosecond once."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_tables import records_of
from tiny_export import PID, call, global_id, kernel, memcpy, nvtx, opened

from nsyswrap.analysis.gpu_operations import gpu_operations_of, pieces_of, selected_ns, window, windows
from nsyswrap.api import CaptureReader
from nsyswrap.render.timeline.lanes import streams, threads
from nsyswrap.reports.summary import summarize

WORKER = 101  # a thread that is not its process' first

# step [0 ...... 20)     [30 ......... 50)
# of the worker's thread          [40 ........... 60)
# k        [10 ................ 40)           [55 ..... 70)
# copy          [15 ........ 35)
# call                [22 .... 32)  and the worker's [35 ... 65)
ROWS = (
    *(nvtx("step", 0, 20), nvtx("step", 30, 50), nvtx("step", 40, 60, WORKER)),
    *(kernel("k", 10, 40), kernel("k", 55, 70), memcpy(1, 15, 35, 400, streamId=8)),
    *(call("f", 22, 32), call("f", 35, 65, tid=WORKER)),
)


@pytest.fixture
def part(tmp_path: Path) -> CaptureReader:
    return opened(tmp_path, *ROWS).select(nvtx="step")


def only(capture: CaptureReader, report: str, *columns: str) -> tuple[Any, ...]:
    [row] = records_of(capture.report(report))
    return tuple(row[column] for column in columns)


def test_busy_and_idle_time_are_those_inside_the_ranges(part: CaptureReader) -> None:
    # 20 ns and 30 ns are selected. Of them k runs in [10, 20), [30, 40) and [55, 60), the copy beside it.
    times = ("start_ns", "end_ns", "window_ns", "busy_ns", "idle_ns", "kernel_total_ns", "copy_busy_ns")
    assert only(part, "gpu_time", *times) == (0, 60, 50, 25, 25, 25, 10)
    assert only(part, "gpu_time", "utilisation_percent", "concurrency") == (50.0, 35 / 25)
    assert only(part, "gpu_time", "copy_overlap_ns", "kernel_busy_ns") == (10, 25)


def test_a_kernel_in_two_ranges_is_one_kernel_with_both_times(part: CaptureReader) -> None:
    columns = ("instances", "total_ns", "avg_ns", "med_ns", "p99_ns")
    assert only(part, "kernel_class_sum", *columns) == (2, 25, 12.5, 12.5, 20)


def test_a_copy_has_the_bytes_of_its_time_in_the_ranges(part: CaptureReader) -> None:
    # 400 bytes in 20 ns, of which [15, 20) and [30, 35) are selected
    totals = ("count", "total_bytes", "total_ns", "overlap_ns")
    assert only(part, "memcpy_bandwidth", *totals) == (1, 200, 10, 10)
    rates = ("bandwidth_bytes_per_s", "aggregate_bytes_per_s", "med_bandwidth_bytes_per_s")
    assert only(part, "memcpy_bandwidth", *rates) == (2e10, 2e10, 2e10)
    assert only(part, "memcpy_bandwidth", "med_bytes", "med_ns") == (400, 20)  # of the whole copy


def test_a_worker_s_range_selects_its_own_calls_alone(part: CaptureReader) -> None:
    # A range of the first thread selects the calls of all threads; [50, 60) is only of the worker.
    decided = part.decided()
    assert decided.durations("api").tolist() == [2, 25]
    first = part.select(nvtx="step/2").decided()
    assert first.durations("api").tolist() == [20]


def test_nsys_takes_the_first_range_and_whole_rows(part: CaptureReader) -> None:
    assert only(part, "cuda_gpu_kern_sum", "instances", "total_ns") == (1, 30)
    assert only(part.select(nvtx="step/1-2"), "cuda_gpu_kern_sum", "instances", "total_ns") == (1, 30)
    assert only(part.select(nvtx="step/2"), "cuda_gpu_kern_sum", "instances", "total_ns") == (2, 45)


def test_the_time_compared_with_has_no_time_between_the_ranges(part: CaptureReader) -> None:
    clipped = part.decided()
    operations = gpu_operations_of(clipped)
    assert window(clipped, operations) == (0, 60)
    assert list(zip(*windows(clipped, operations), strict=True)) == [(0, 20), (30, 60)]
    whole = part.select(nvtx="step", clip=False)  # whole rows extend it
    assert list(zip(*windows(whole, gpu_operations_of(whole)), strict=True)) == [(0, 70)]
    one = part.select(nvtx="step/1").decided()
    assert list(zip(*windows(one, gpu_operations_of(one)), strict=True)) == [(30, 50)]


def test_a_range_that_never_ended_lasts_to_the_last_operation(tmp_path: Path) -> None:
    rows = (nvtx("step", 0, 20), nvtx("step", 30, None), kernel("k", 10, 40), kernel("k", 60, 70))
    clipped = opened(tmp_path, *rows).select(nvtx="step").decided()
    assert list(zip(*windows(clipped, gpu_operations_of(clipped)), strict=True)) == [(0, 20), (30, 70)]
    assert clipped.durations("kernel").tolist() == [20, 10]


def test_ranges_of_several_processes_select_each_their_own(tmp_path: Path) -> None:
    other = {"globalTid": global_id(200, 200)}
    rows = [nvtx("step", 0, 10), nvtx("step", 20, 30), nvtx("step", 10, 20, **other)]
    rows += [kernel("k", 5, 25, pid=pid) for pid in (PID, 200)]
    part = opened(tmp_path, *rows).select(nvtx="step")
    found = {row["process_id"]: row for row in records_of(part.report("gpu_time"))}
    assert [found[pid]["window_ns"] for pid in (PID, 200)] == [20, 10]
    assert [found[pid]["busy_ns"] for pid in (PID, 200)] == [10, 10]
    assert (found[None]["window_ns"], found[None]["busy_ns"]) == (30, 20)  # the device: [5, 25) of [0, 30)


def test_the_lanes_of_the_page_are_busy_in_the_ranges_alone(part: CaptureReader) -> None:
    clipped = part.decided()
    assert [(lane.title, len(lane), lane.busy_ns) for lane in streams(clipped)] == [
        ("stream 7", 2, 25),
        ("stream 8", 1, 10),
    ]
    calls = [lane.busy_ns for lane in threads(clipped) if lane.title == "CUDA API"]
    assert calls == [2, 25]


def test_the_screen_counts_the_same_kernels_everywhere(part: CaptureReader) -> None:
    made = summarize(part)
    [kernels] = [row for row in records_of(made.tables[0][0]) if row["category"] == "CUDA_KERNEL"]
    assert made.trust.contents.startswith("2 kernels")
    assert (kernels["instances"], kernels["total_ns"]) == (2, 25)
    assert {table.selection for table, _ in made.tables} == {
        "NVTX range 'step': all 3 instances; rows cut at their ends (--clip yes)"
    }


@pytest.mark.parametrize("seed", range(20))
def test_nanosecond_by_nanosecond(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)  # noqa: S311 - not for cryptography

    def span(longest: int) -> tuple[int, int]:
        start = dice.randrange(200)
        return start, start + dice.randrange(longest)

    ranges = [(*span(30), dice.choice((PID, WORKER))) for _ in range(dice.randrange(2, 9))]
    kernels, copies, calls = ([span(60) for _ in range(dice.randrange(1, 9))] for _ in range(3))
    threads = [dice.choice((PID, WORKER, 300)) for _ in calls]
    capture = opened(
        tmp_path,
        *(nvtx("step", *one) for one in ranges),
        *(kernel("k", *one) for one in kernels),
        *(memcpy(1, *one, 8) for one in copies),
        *(call("f", *one, tid=tid) for one, tid in zip(calls, threads, strict=True)),
    )
    clipped = capture.select(nvtx="step").decided()
    chosen = {ns for start, end, _ in ranges for ns in range(start, end)}
    took = {(start, end): len(chosen.intersection(range(start, end))) for start, end in (*kernels, *copies)}
    operations, pieces = gpu_operations_of(clipped), pieces_of(clipped)
    assert selected_ns(clipped, operations).sum() == sum(took[one] for one in (*kernels, *copies))
    assert (pieces.end_ns - pieces.start_ns).sum() == selected_ns(clipped, operations).sum()
    assert (np.diff(pieces.start_ns) >= 0).all()
    assert clipped.durations("kernel").sum() == sum(took[one] for one in kernels)
    if len(operations):
        busy = {ns for start, end in (*kernels, *copies) for ns in range(start, end)} & chosen
        times = ("window_ns", "busy_ns", "idle_ns")
        assert only(clipped, "gpu_time", *times) == (len(chosen), len(busy), len(chosen - busy))
    by_thread = {
        tid: {ns for start, end, own in ranges if own in (PID, tid) for ns in range(start, end)}
        for tid in threads
    }
    spent = (len(by_thread[tid].intersection(range(*one))) for one, tid in zip(calls, threads, strict=True))
    assert clipped.durations("api").sum() == sum(spent)
