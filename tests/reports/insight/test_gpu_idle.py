"""gpu_idle: gaps, NVTX ranges and verdict; what causes them is tested nanosecond by nanosecond."""

from pathlib import Path

import pytest
import recorded
from report_tables import csv_of, values_of
from tiny_export import PID, Row, call, graph, kernel, memcpy, nvtx, opened

from nsyswrap.analysis.gpu_gaps import CAUSES
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.reports.wording.states import CAUSE_NAMES

REPORT = "gpu_idle"
HEADER = (
    "start_ns,duration_ns,cause,nvtx,before,after,process_id,device_id,thread_id,profiler_ns,load_ns,"
    "allocate_ns,synchronise_ns,launch_ns,copy_ns,call_ns,host_ns,queued_ns,migration_ns,unknown_ns,"
    "host_gil_holding_ns,host_gil_waiting_ns\n"
)
LAUNCH = "cudaLaunchKernel"
# CPU   L[0,1)  S[5,12)        L[15,18)            C[50,56)                            l[90,95)
# GPU         a[5,10)             a[20,40)            copy[55,60)  migration[70,72)            a[100,110)
ROWS = [
    *(call(LAUNCH, 0, 1, 1), kernel("a", 5, 10, 1), call("cudaDeviceSynchronize", 5, 12)),
    *(call(LAUNCH, 15, 18, 2), kernel("a", 20, 40, 2)),
    *(call("cudaMemcpyAsync", 50, 56, 3), memcpy(1, 55, 60, 8, correlationId=3), memcpy(11, 70, 72, 4096)),
    *(call(LAUNCH, 90, 95, 4), kernel("a", 100, 110, 4)),
]
COPY, MIGRATION = "[CUDA memcpy Host-to-Device]", "[CUDA memcpy Unified Host-to-Device]"


def shown(capture: CaptureReader, *columns: str) -> list[tuple[object, ...]]:
    return values_of(capture.report(REPORT), *columns)


# CPU  L[0,1)              L[13 ... 18)             C[50 ... 56)
# NVTX             step[12 ............ 30)
# GPU         a[5,10)                  a[20,40)            copy[55,60)
def test_two_gaps(tmp_path: Path) -> None:
    rows = [call(LAUNCH, 0, 1, 1), kernel("a", 5, 10, 1), call(LAUNCH, 13, 18, 2), kernel("a", 20, 40, 2)]
    rows += [call("cudaMemcpyAsync", 50, 56, 3), memcpy(1, 55, 60, 8, correlationId=3), nvtx("step", 12, 30)]
    # from 40 to 55: 10 ns outside of calls, 5 in the copy's; from 10 to 20: 3 outside, 7 until it is launched
    assert csv_of(opened(tmp_path, *rows), REPORT) == (
        f"{HEADER}"
        "40,15,host code outside CUDA calls,,a,[CUDA memcpy Host-to-Device],100,0,100,"
        "0,0,0,0,0,5,0,10,0,0,0,,\n"
        "10,10,launch latency,step,a,a,100,0,100,0,0,0,0,7,0,0,3,0,0,0,,\n"
    )


def test_one_row_per_gap_the_longest_first(tmp_path: Path) -> None:
    capture = opened(tmp_path, *ROWS)
    assert shown(capture, "start_ns", "duration_ns", "before", "after", "cause") == [
        (72, 28, MIGRATION, "a", "host code outside CUDA calls"),
        (40, 15, "a", COPY, "host code outside CUDA calls"),
        (10, 10, "a", "a", "launch latency"),
        (60, 10, COPY, MIGRATION, "page migration of unified memory"),
    ]
    assert set(shown(capture, "process_id", "device_id")) == {(PID, 0)}
    assert shown(capture, "thread_id") == [(PID,), (PID,), (PID,), (None,)]


def test_a_column_per_cause(tmp_path: Path) -> None:
    capture = opened(tmp_path, *ROWS)
    names = [f"{cause}_ns" for cause in CAUSES]
    assert [column.name for column in capture.report(REPORT).columns if column.name in names] == names
    assert shown(capture, "synchronise_ns", "launch_ns", "copy_ns", "host_ns", "migration_ns") == [
        (0, 10, 0, 18, 0),
        (0, 0, 5, 10, 0),
        (2, 5, 0, 3, 0),
        (0, 0, 0, 0, 10),
    ]


def test_the_verdict(tmp_path: Path) -> None:
    assert opened(tmp_path, *ROWS).report(REPORT).verdict == (
        "GPU idle for 63 ns from first to last operation (60.0 % of that time). Of the idle time: "
        "49.2 % host code outside CUDA calls; 23.8 % launch latency; "
        "15.9 % page migration of unified memory; 7.9 % copy or memset calls; "
        "3.2 % synchronizing."
    )


@pytest.mark.parametrize(
    ("ranges", "name"),
    [
        ([], None),
        ([nvtx("step", 70, 120)], "step"),
        ([nvtx("step", 70, 120), nvtx("outer", 0, 130)], "step"),
        ([nvtx("step", 70, 120), nvtx("part", 80, 86)], "part"),
        ([nvtx("step", 70, 120), nvtx("part", 80, 85), nvtx("later", 87, 90)], "step"),
        ([nvtx("job", 60, 120, eventType=60), nvtx("step", 70, 95)], "step"),
        ([nvtx("step", 60, 120), nvtx("job", 70, 95, eventType=60)], "job"),
        ([nvtx("step", 70, 120, tid=101)], None),  # of another thread
        ([nvtx("open", 70, None), nvtx("last", 120, 130)], "open"),
        ([nvtx(None, 70, 120)], None),
    ],
)
def test_the_innermost_range_in_the_middle_of_the_longest_gap(
    ranges: list[Row], name: str | None, tmp_path: Path
) -> None:
    # The gap is [72,100): its middle is at 86.
    assert shown(opened(tmp_path, *ROWS, *ranges), "nvtx")[0] == (name,)


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ([nvtx("step", 70, 120)], " (mostly in NVTX range 'step')"),  # 18 of 31 ns
        ([nvtx("step", 0, 50)], ""),  # 10 + 3 of 31 ns
        ([nvtx("step", 0, 120), nvtx("part", 45, 50)], " (mostly in NVTX range 'step')"),
    ],
)
def test_where_the_host_mostly_was(ranges: list[Row], said: str, tmp_path: Path) -> None:
    verdict = opened(tmp_path, *ROWS, *ranges).report(REPORT).verdict
    assert f"49.2 % host code outside CUDA calls{said}; 23.8 % launch latency;" in verdict


def test_time_in_first_launches_stands_apart(tmp_path: Path) -> None:
    # CPU  L[0,1)       L[10,30)                  L[50,60)
    # GPU        a[5,10)        b[30,40)                   a[60,61)
    rows = [*ROWS[:2], call(LAUNCH, 10, 30, 2), kernel("b", 30, 40, 2)]
    capture = opened(tmp_path, *rows, call(LAUNCH, 50, 60, 3), kernel("a", 60, 61, 3))
    assert capture.report(REPORT).verdict == (
        "GPU idle for 40 ns from first to last operation (71.4 % of that time). Of the idle time: "
        "75.0 % launch latency (66.7 % of it inside first launches); "
        "25.0 % host code outside CUDA calls."
    )


def test_processes_and_devices_are_added_up(tmp_path: Path) -> None:
    # Of each the second launch begins at once: 20 ns, and 10 ns on another device.
    rows = [*ROWS[:2], call(LAUNCH, 10, 25, 2), kernel("a", 30, 40, 2)]
    rows += [kernel("a", 0, 10, 7, deviceId=1), call(LAUNCH, 10, 20, 8), kernel("a", 20, 30, 8, deviceId=1)]
    table = opened(tmp_path, *rows).report(REPORT)
    assert table.notes == ()
    assert table.verdict == (
        "GPU idle for 30 ns from first to last operation (46.2 % of that time, sum of 2 process and device "
        "pairs). Of the idle time: 100.0 % launch latency."
    )
    (tmp_path / "shared").mkdir()
    table = opened(tmp_path / "shared", *ROWS[:5], kernel("a", 0, 5, 1, pid=7)).report(REPORT)
    assert table.notes == (
        "several processes used one device; in a gap of one process, another may have run",
    )


def test_a_selection_and_its_ends(tmp_path: Path) -> None:
    part = opened(tmp_path, *ROWS).select(time="15/50")
    assert shown(part, "start_ns", "duration_ns", "before", "after") == [
        (40, 10, "a", COPY),
        (15, 5, "a", "a"),
    ]
    assert part.report(REPORT).verdict == (
        "GPU idle for 15 ns in the selection (42.9 % of that time). Of the idle time: "
        "66.7 % host code outside CUDA calls; 33.3 % launch latency."
    )
    table = part.select(time="120/130").report(REPORT)
    assert (table.rows(), table.verdict, table.notes) == ([], "", ("no events in the selection",))


def test_an_end_of_the_capture_has_no_operation_beside_it(tmp_path: Path) -> None:
    part = opened(tmp_path, *ROWS[:2]).select(time="2/15")
    assert shown(part, "start_ns", "before", "after") == [(10, "a", None), (2, None, "a")]


def test_what_never_idles_says_so(tmp_path: Path) -> None:
    table = opened(tmp_path, kernel("k", 0, 10), graph(10, 20, 1)).report(REPORT)
    assert (table.rows(), table.verdict) == ([], "")
    assert table.notes == (
        "no idle gaps: the GPU was busy from the first operation to the last",
        "whole-graph executions (1) count as busy; gaps inside them are not recorded",
    )


def test_kernels_are_called_as_the_view_says(tmp_path: Path) -> None:
    rows = [kernel("k<int>", 0, 5, shortName="k"), kernel("l<int>", 9, 10, shortName="l")]
    assert shown(opened(tmp_path, *rows).viewed(names="base"), "before", "after") == [("k", "l")]


@pytest.mark.parametrize("name", ["overlap/four_streams", "rules/wasteful", "p2p/staged"])
def test_without_graphs_the_gaps_are_those_of_nsys_rule(name: str, tmp_path: Path) -> None:
    capture = open_capture(recorded.run_folder(name, tmp_path))
    rule = capture.report("gpu_gaps", gap=0, rows=-1).frame
    keys = ["start_ns", "duration_ns", "process_id", "device_id"]
    found = capture.report(REPORT).frame[keys].sort_values(keys).to_numpy().tolist()
    assert len(found) > 10
    assert found == rule[keys].sort_values(keys).to_numpy().tolist()


def test_a_storm_of_empty_kernels_waits_for_launches(tmp_path: Path) -> None:
    table = open_capture(recorded.run_folder("storm/empty", tmp_path)).report(REPORT).frame
    assert table.launch_ns.sum() > 0.9 * table.duration_ns.sum()
    busy = open_capture(recorded.run_folder("storm/busy", tmp_path)).report(REPORT).frame
    assert busy.queued_ns.sum() > busy.launch_ns.sum()


def test_ranks_that_share_a_gpu_wait_for_each_other(tmp_path: Path) -> None:
    table = open_capture(recorded.run_folder("hybrid/gpu", tmp_path)).report(REPORT).frame
    assert table.queued_ns.sum() > 0.5 * table.duration_ns.sum()


def test_a_copy_between_gpus_through_the_host_waits_on_one_for_the_other(tmp_path: Path) -> None:
    table = open_capture(recorded.run_folder("p2p/staged", tmp_path)).report(REPORT).frame
    waits = table[table.cause == CAUSE_NAMES["queued"]]
    assert (waits.duration_ns > 1_000_000).any()


def test_a_gpu_that_never_idles_has_no_row(tmp_path: Path) -> None:
    assert csv_of(opened(tmp_path, kernel("k", 0, 10)), REPORT) == HEADER
