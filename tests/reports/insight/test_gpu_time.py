"""gpu_time: GPU time by device and process, drawn on paper, and on recorded captures."""

from pathlib import Path
from typing import Any

import pytest
import recorded
from report_tables import csv_of, records_of
from tiny_export import PID, call, graph, kernel, memcpy, memset, nvtx, opened, row

from nsyswrap.api import CaptureReader, open_capture

REPORT = "gpu_time"
HEADER = (
    "device_id,process_id,start_ns,end_ns,window_ns,busy_ns,idle_ns,utilisation_percent,kernel_total_ns,"
    "kernel_busy_ns,graph_busy_ns,copy_busy_ns,set_busy_ns,migration_busy_ns,copy_overlap_ns,"
    "copy_hidden_percent,communication_busy_ns,communication_overlap_ns,communication_hidden_percent,"
    "concurrency\n"
)
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
# 7     k[10 ......... 30)                          k[60,70)
# 8              k[25 ...... 40)
# 9          copy[20,28)         copy[42,50)   copy[58 ........ 80)
#       set[12,14)               migration[45,55)
ROWS = [
    *(kernel("k", 10, 30), kernel("k", 25, 40, streamId=8), kernel("k", 60, 70)),
    *(memcpy(1, 20, 28, 8), memcpy(2, 42, 50, 8), memcpy(1, 58, 80, 8)),
    *(memset(12, 14, 8), memcpy(11, 45, 55, 4096)),
]


def only(capture: CaptureReader) -> dict[str, Any]:
    """The one row of the report."""
    [found] = records_of(capture.report(REPORT))
    return found


# 7  k[0 ......... 40)                k[80,100)
# 9      copy[10 ..... 50)  set[60,70)
def test_one_device(tmp_path: Path) -> None:
    rows = [kernel("k", 0, 40), memcpy(1, 10, 50, 8), memset(60, 70, 8), kernel("k", 80, 100)]
    # idle in [50,60) and [70,80); 30 of 40 ns of copying beside a kernel; 60 + 40 + 10 of 80 ns busy
    assert csv_of(opened(tmp_path, *rows), REPORT) == (
        f"{HEADER}0,100,0,100,100,80,20,80.0,60,60,0,40,10,0,30,75.0,0,0,,1.375\n"
    )


def test_every_column_of_a_drawing(tmp_path: Path) -> None:
    assert only(opened(tmp_path, *ROWS)) == {
        "device_id": 0,
        "process_id": PID,
        "start_ns": 10,
        "end_ns": 80,
        "window_ns": 70,
        "busy_ns": 30 + 13 + 22,  # idle in [40,42) and [55,58)
        "idle_ns": 5,
        "utilisation_percent": pytest.approx(6500 / 70),
        "kernel_total_ns": 20 + 15 + 10,
        "kernel_busy_ns": 30 + 10,
        "graph_busy_ns": 0,
        "copy_busy_ns": 8 + 8 + 22,
        "set_busy_ns": 2,
        "migration_busy_ns": 10,
        "copy_overlap_ns": 8 + 10,
        "copy_hidden_percent": pytest.approx(1800 / 38),
        "communication_busy_ns": 0,
        "communication_overlap_ns": 0,
        "communication_hidden_percent": None,
        "concurrency": pytest.approx((45 + 38 + 2 + 10) / 65),
    }


def test_communication_is_told_by_its_name_and_held_against_other_kernels(tmp_path: Path) -> None:
    # 7   nccl[0 ....... 20)      nccl[50,60)
    # 8          nccl[10,30)
    # 9            k[15 ....... 40)
    #       copy[5,12)                  copies hide nothing of it
    rows = [kernel(NCCL, 0, 20), kernel(NCCL, 10, 30, streamId=8), kernel(NCCL, 50, 60)]
    capture = opened(tmp_path, *rows, kernel("k", 15, 40, streamId=9), memcpy(1, 5, 12, 8))
    for seen in (capture, capture.viewed(names="base"), capture.viewed(nvtx_names=True)):
        found = only(seen)
        assert (found["communication_busy_ns"], found["communication_overlap_ns"]) == (30 + 10, 15)
        assert found["communication_hidden_percent"] == 1500 / 40
        assert found["copy_hidden_percent"] == 100.0


def test_what_whole_graphs_hide_is_missing_and_not_zero(tmp_path: Path) -> None:
    # A graph computes: the copy beside it is hidden. Which kernels ran in it is not known.
    capture = opened(tmp_path, kernel("k", 0, 10), graph(20, 50, 1), graph(45, 60, 2), memcpy(1, 40, 70, 8))
    found = only(capture)
    assert (found["graph_busy_ns"], found["kernel_busy_ns"], found["busy_ns"]) == (40, 10, 60)
    assert (found["copy_overlap_ns"], found["copy_hidden_percent"]) == (20, pytest.approx(2000 / 30))
    assert {value for name, value in found.items() if name.startswith("communication")} == {None}
    [note] = capture.report(REPORT).notes
    assert note.startswith(
        "whole-graph executions (2) count as compute; their kernels and copies are not recorded"
    )


def test_what_communicates_beside_a_graph_is_known(tmp_path: Path) -> None:
    found = only(opened(tmp_path, kernel(NCCL, 0, 30), kernel("k", 5, 10), graph(20, 50, 1)))
    assert (found["communication_busy_ns"], found["communication_overlap_ns"]) == (30, 5 + 10)


def test_processes_on_one_device_have_a_row_together_and_devices_have_none(tmp_path: Path) -> None:
    # device 0: process 100 [0,10) and [20,30), process 200 [5,15); device 1: process 200 [50,60)
    rows = [kernel("k", 0, 10), kernel("k", 20, 30), kernel("k", 5, 15, pid=200)]
    table = opened(tmp_path, *rows, kernel("k", 50, 60, pid=200, deviceId=1)).report(REPORT)
    shown = ["device_id", "process_id", "window_ns", "busy_ns", "kernel_total_ns", "concurrency"]
    found = table.frame[shown].astype(object).where(table.frame[shown].notna(), None)
    assert found.to_numpy().tolist() == [
        [0, None, 30, 25, 30, 30 / 25],
        [0, 100, 30, 20, 20, 1.0],
        [0, 200, 10, 10, 10, 1.0],
        [1, 200, 10, 10, 10, 1.0],
    ]
    [note] = table.notes
    assert note.startswith("several processes used device 0; the row without a process is wrong if")
    assert table.verdict == (
        "From first to last operation device 0 was busy 83.3 % of the time, 25 ns of 30 ns (kernels 25 ns); "
        "device 1 was busy 100.0 % of the time, 10 ns of 10 ns (kernels 10 ns)."
    )


def test_the_same_device_number_on_two_machines_is_two_devices(tmp_path: Path) -> None:
    elsewhere = {"globalPid": 2 << 56 | 200 << 24}
    table = opened(tmp_path, kernel("k", 0, 10), kernel("k", 5, 15, **elsewhere)).report(REPORT)
    assert table.frame.process_id.tolist() == [PID, 200]
    assert table.notes == ()


@pytest.mark.parametrize(
    ("clip", "expected"), [(True, (22, 57, 35, 18 + 13, 4, 6 + 8)), (False, (10, 57, 47, 30 + 13, 4, 8 + 8))]
)
def test_a_selection_sets_the_window(clip: bool, expected: tuple[int, ...], tmp_path: Path) -> None:  # noqa: FBT001
    found = only(opened(tmp_path, *ROWS).select(time="22/57", clip=clip))
    names = ("start_ns", "end_ns", "window_ns", "busy_ns", "idle_ns", "copy_busy_ns")
    assert tuple(found[name] for name in names) == expected


def test_what_is_idle_throughout_a_selection_is_said(tmp_path: Path) -> None:
    rows = [*ROWS, kernel("k", 0, 5, deviceId=1), kernel("k", 1, 6, pid=200)]
    capture = opened(tmp_path, *rows)
    absent = "no row for process {} on device {}: no operation in the selection"
    assert set(capture.select(time="10/50").report(REPORT).notes) == {
        absent.format(PID, 1),
        absent.format(200, 0),
    }
    assert capture.select(time="10/50", device=0, process=PID).report(REPORT).notes == ()
    step = nvtx("step", 10, 50)
    (tmp_path / "range").mkdir()
    part = opened(tmp_path / "range", *rows, step).select(nvtx="step")  # it is of one process
    assert part.report(REPORT).notes == (absent.format(PID, 1),)
    nothing = capture.select(time="90/95").report(REPORT)
    assert (nothing.rows(), nothing.verdict) == ([], "")
    assert nothing.notes == ("no events in the selection",)


def test_gpus_without_work_are_counted(tmp_path: Path) -> None:
    gpus = [row("TARGET_INFO_GPU", id=i, name="GPU") for i in range(3)]
    capture = opened(tmp_path, *ROWS, *gpus)
    assert capture.report(REPORT).notes == ("3 GPUs in the machine, operations recorded on 1",)
    assert capture.select(device=0).report(REPORT).notes == ()


def test_one_operation_and_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = only(opened(tmp_path, kernel("k", 5, 9)))
    assert (found["utilisation_percent"], found["idle_ns"], found["concurrency"]) == (100.0, 0, 1.0)
    capture = opened(tmp_path / "empty", kernel("k", 5, 5))
    found = only(capture)
    assert (found["utilisation_percent"], found["window_ns"], found["concurrency"]) == (None, 0, None)
    assert capture.report(REPORT).verdict == ""
    said = capture.select(time="0/10").report(REPORT).verdict
    assert said == "In the selection the GPU was busy 0.0 % of the time, 0 ns of 10 ns."


def test_without_processes_all_work_is_one_s(tmp_path: Path) -> None:
    found = only(opened(tmp_path, *ROWS, without=["globalPid"]))
    assert (found["process_id"], found["device_id"], found["busy_ns"]) == (None, 0, 65)


def test_kernels_of_trimmed_exports_are_their_calls(tmp_path: Path) -> None:
    rows = [call("cudaLaunchKernel", 0, 10, 1), kernel("k", 10, 30, 1), memcpy(1, 40, 50, 8)]
    rows[1].cells["globalPid"] = rows[2].cells["globalPid"] = None
    found = only(opened(tmp_path, *rows))
    assert (found["process_id"], found["busy_ns"], found["window_ns"]) == (PID, 30, 40)


def test_the_verdict(tmp_path: Path) -> None:
    capture = opened(tmp_path, *ROWS, kernel(NCCL, 60, 64, streamId=8))
    assert capture.report(REPORT).verdict == (
        "From first to last operation the GPU was busy 92.9 % of the time, 65 ns of 70 ns (kernels 40 ns, "
        "copies 38 ns, migrations 10 ns, memsets 2 ns). 47.4 % of 38 ns of copying overlapped with "
        "kernels or graphs. 100.0 % of 4 ns of communication overlapped with other kernels or graphs."
    )
    part = capture.select(time="22/57").report(REPORT).verdict
    assert part.startswith("In the selection the GPU was busy 88.6 % of the time, 31 ns of 35 ns (kernels 18")


def test_the_verdict_names_a_few_devices(tmp_path: Path) -> None:
    rows = [kernel("k", 0, 10, deviceId=i) for i in range(6)]
    said = opened(tmp_path, *rows).report(REPORT).verdict
    assert "device 3 was busy 100.0 % of the time, 10 ns of 10 ns (kernels 10 ns); 2 more." in said


def test_copies_in_four_streams_are_hidden_behind_kernels_and_in_one_they_are_not(tmp_path: Path) -> None:
    def overlap(name: str) -> tuple[int, float, float]:
        found = only(open_capture(recorded.run_folder(name, tmp_path)))
        return found["copy_overlap_ns"], found["copy_hidden_percent"], found["concurrency"]

    assert overlap("overlap/one_stream") == (0, 0.0, 1.0)
    hidden, percent, concurrency = overlap("overlap/four_streams")
    assert hidden > 10_000_000
    assert 50 < percent < 80
    assert concurrency > 1.5


def test_ranks_communicate(tmp_path: Path) -> None:
    table = open_capture(recorded.run_folder("ddp/even", tmp_path)).report(REPORT).frame
    assert table.device_id.tolist() == [0, 1]
    assert (table.communication_busy_ns > 3_000_000).all()
    assert (table.communication_busy_ns < table.kernel_busy_ns).all()
