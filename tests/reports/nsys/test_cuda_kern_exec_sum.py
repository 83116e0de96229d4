from pathlib import Path

from report_tables import csv_of, rows_of
from tiny_export import call, kernel, opened

from nsyswrap.api import CaptureReader

REPORT = "cuda_kern_exec_sum"
HEADER = (
    "PID,TID,DevId,Count,QCount,"
    "TAvg (ns),TMed (ns),TMin (ns),TMax (ns),TStdDev (ns),"
    "AAvg (ns),AMed (ns),AMin (ns),AMax (ns),AStdDev (ns),"
    "QAvg (ns),QMed (ns),QMin (ns),QMax (ns),QStdDev (ns),"
    "KAvg (ns),KMed (ns),KMin (ns),KMax (ns),KStdDev (ns),API Name,Kernel Name\n"
)


def keys_of(capture: CaptureReader) -> list[list[str]]:
    """PID, TID, DevId, Count, QCount, and the two names of each row."""
    rows = [line.split(",") for line in rows_of(capture, REPORT)]
    return [[*cells[:5], *cells[-2:]] for cells in rows]


# CPU  A1[0,10)            A2[40 ... 52)      B[100,104)
# GPU           a[15,35)          a[50,60)             b[110,111)
def test_the_phases_of_launches(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(call("cudaLaunchKernel", 0, 10, 1, tid=101), kernel("a", 15, 35, 1)),
        *(call("cudaLaunchKernel", 40, 52, 2, tid=101), kernel("a", 50, 60, 2)),  # starts before it returns
        *(call("cudaLaunchKernel", 100, 104, 3, tid=101), kernel("b", 110, 111, 3)),
    )
    # a: in total 35 and 20 ns, in the call 10 and 12, waiting 5 once, in the kernel 20 and 10
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "100,101,0,2,1,27.5,27.5,20,35,10.6,11.0,11.0,10,12,1.4,"
        "5.0,5.0,5,5,0.0,15.0,15.0,10,20,7.1,cudaLaunchKernel,a\n"
        "100,101,0,1,1,11.0,11.0,11,11,0.0,4.0,4.0,4,4,0.0,"
        "6.0,6.0,6,6,0.0,1.0,1.0,1,1,0.0,cudaLaunchKernel,b\n"
    )


def test_a_kernel_that_starts_the_moment_its_call_returns_waited_0_ns(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("launch", 0, 10, 1, tid=101), kernel("k", 10, 30, 1, deviceId=2))
    assert rows_of(capture, REPORT) == [
        "100,101,2,1,1,30.0,30.0,30,30,0.0,10.0,10.0,10,10,0.0,0.0,0.0,0,0,0.0,20.0,20.0,20,20,0.0,launch,k"
    ]


def test_a_kernel_that_started_earlier_has_no_queue_time(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("launch", 0, 10, 1), kernel("k", 5, 8, 1))
    assert rows_of(capture, REPORT) == [
        "100,100,0,1,0,10.0,10.0,10,10,0.0,10.0,10.0,10,10,0.0,,,,,0.0,3.0,3.0,3,3,0.0,launch,k"
    ]


def test_queue_statistics_are_over_those_that_waited(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(call("launch", 100 * i, 100 * i + 10, i) for i in (1, 2, 3)),
        kernel("k", 105, 140, 1),  # T 40, no queue, K 35
        kernel("k", 220, 240, 2),  # T 40, Q 10, K 20
        kernel("k", 340, 345, 3),  # T 45, Q 30, K 5
    )
    assert rows_of(capture, REPORT) == [
        "100,100,0,3,2,41.7,40.0,40,45,2.9,10.0,10.0,10,10,0.0,20.0,20.0,10,30,14.1,20.0,20.0,5,35,15.0,launch,k"
    ]


def test_rows_stand_by_the_average_as_it_is_printed(tmp_path: Path) -> None:
    calls = [call("launch", 0, 1, i) for i in range(27)]
    capture = opened(
        tmp_path,
        *calls,
        *(kernel("b", 50, 100, i) for i in range(24)),
        kernel("b", 50, 101, 24),  # 2501 / 25 = 100.04, printed as 100.0
        kernel("a", 50, 100, 25),
        kernel("c", 50, 200, 26),
    )
    assert [row[-1] for row in keys_of(capture)] == ["c", "a", "b"]


def test_rows_of_equal_average_stand_by_process_thread_device_call_and_kernel(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        call("launch", 0, 1, 1, pid=100, tid=9),
        call("b", 0, 1, 2, pid=100, tid=8),
        call("a_v7000", 0, 1, 3, pid=100, tid=8),
        call("launch", 0, 1, 1, pid=20, tid=9),
        kernel("z", 5, 10, 1, pid=100),
        kernel("z", 5, 10, 1, pid=100, deviceId=1),
        kernel("y", 5, 10, 1, pid=100),
        kernel("z", 5, 10, 2, pid=100),
        kernel("z", 5, 10, 3, pid=100),
        kernel("z", 5, 10, 1, pid=20),
    )
    assert keys_of(capture) == [
        ["20", "9", "0", "1", "1", "launch", "z"],
        ["100", "8", "0", "1", "1", "a", "z"],
        ["100", "8", "0", "1", "1", "b", "z"],
        ["100", "9", "0", "1", "1", "launch", "y"],
        ["100", "9", "0", "1", "1", "launch", "z"],
        ["100", "9", "1", "1", "1", "launch", "z"],
    ]


def test_calls_that_differ_in_their_version_are_one_group_here(tmp_path: Path) -> None:
    calls = [call("launch_v7000", 0, 1, 1), call("launch_v3020", 0, 1, 2)]
    capture = opened(tmp_path, *calls, kernel("k", 5, 10, 1), kernel("k", 5, 10, 2))
    assert keys_of(capture) == [["100", "100", "0", "2", "2", "launch", "k"]]


def test_a_kernel_with_a_runtime_and_a_driver_call_counts_under_both_as_in_nsys(tmp_path: Path) -> None:
    calls = [call("cudaLaunchKernel", 0, 10, 1), call("cuLaunchKernel", 2, 8, 1)]
    capture = opened(tmp_path, *calls, kernel("k", 20, 30, 1))
    assert [row[-2:] for row in keys_of(capture)] == [["cudaLaunchKernel", "k"], ["cuLaunchKernel", "k"]]


def test_each_node_of_a_graph_repeats_the_launch(tmp_path: Path) -> None:
    nodes = [kernel("k", 20 + i, 21 + i, 1, graphNodeId=i) for i in range(3)]
    capture = opened(tmp_path, call("cudaGraphLaunch", 0, 10, 1), *nodes)
    assert rows_of(capture, REPORT) == [
        "100,100,0,3,3,22.0,22.0,21,23,1.0,10.0,10.0,10,10,0.0,11.0,11.0,10,12,1.0,1.0,1.0,1,1,0.0,cudaGraphLaunch,k"
    ]


def test_kernels_without_their_call_are_left_out_as_nsys_does(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("launch", 0, 1, 1), kernel("k", 5, 10, 2))
    assert csv_of(capture, REPORT) == HEADER


def test_ids_above_2_to_the_63_are_taken_apart(tmp_path: Path) -> None:
    high = 200 << 56 | 100 << 24
    negative = high - (1 << 64)
    capture = opened(
        tmp_path, call("launch", 0, 1, 1, globalTid=negative | 101), kernel("k", 5, 10, 1, globalPid=negative)
    )
    assert keys_of(capture)[0][:2] == ["100", "101"]
