from pathlib import Path

from report_tables import csv_of
from tiny_export import NVTX, PID, Row, call, global_id, graph, kernel, memcpy, memset, nvtx, opened, row

REPORT = "nvtx_phases"
HEADER = (
    "range,instances,launches,range_med_ns,api_med_ns,queued_med_ns,kernel_med_ns,copy_med_ns,sync_med_ns\n"
)


def launch(correlation: int, start: int, wait: int, lasting: int, name: str = "k") -> list[Row]:
    """A launch call of 10 ns, and its kernel ``wait`` ns after the call."""
    begin = start + 10 + wait
    return [
        call("cudaLaunchKernel", start, start + 10, correlation),
        kernel(name, begin, begin + lasting, correlation),
    ]


def phases(folder: Path, *rows: Row) -> dict[object, tuple[object, ...]]:
    """Range: instances, launches, then the medians of range, API, queue, kernel and sync time."""
    return {found[0]: found[1:] for found in opened(folder, *rows).report(REPORT).rows()}


# CPU   outer[0 ............................................ 1000)
#         inner[100 ........................ 300)
#            L[150,160)  C[200,205)              S[400,900)
# GPU                              k[540,640)
#                          copy[220,250)
def test_a_launch_a_copy_and_a_wait(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(nvtx("outer", 0, 1000), nvtx("inner", 100, 300)),
        *launch(1, 150, wait=380, lasting=100),
        *(call("cudaMemcpyAsync", 200, 205, 2), memcpy(1, 220, 250, 64, correlationId=2)),
        call("cudaDeviceSynchronize", 400, 900),
    )
    assert csv_of(capture, REPORT) == (
        f"{HEADER}"
        "outer,1,1.0,1000.0,10.0,380.0,100.0,30.0,500.0\n"
        "inner,1,1.0,200.0,10.0,140.0,100.0,30.0,0.0\n"
    )


def test_a_launch_counts_in_every_range_around_it(tmp_path: Path) -> None:
    found = phases(
        tmp_path,
        nvtx("outer", 0, 1000),
        nvtx("inner", 100, 500),
        *launch(1, 200, wait=380, lasting=100),  # its kernel runs from 590 to 690: after the inner range
        call("cudaDeviceSynchronize", 510, 900),
        call("cudaMalloc", 910, 990),
    )
    assert found == {
        "outer": (1, 1.0, 1000.0, 10.0, 380.0, 100.0, 0.0, 390.0),
        "inner": (1, 1.0, 400.0, 10.0, 290.0, 100.0, 0.0, 0.0),  # it waits from 210 on, to 500 in the range
    }
    assert list(found) == ["outer", "inner"]  # in order of appearance


def test_medians_are_over_the_instances_of_a_range(tmp_path: Path) -> None:
    found = phases(
        tmp_path,
        *(nvtx("step", 1000 * i, 1000 * i + 100 + i) for i in range(3)),
        *launch(1, 1000, wait=1, lasting=6),
        *launch(2, 1050, wait=5, lasting=8),
        *launch(3, 2000, wait=2, lasting=4),
    )
    # per instance 0, 2 and 1 launches; API 0, 20, 10; queue 0, 6, 2; kernels 0, 14, 4
    assert found == {"step": (3, 1.0, 101.0, 10.0, 2.0, 4.0, 0.0, 0.0)}


def test_waits_that_overlap_count_once_and_end_with_the_range(tmp_path: Path) -> None:
    # CPU   step[0 .................................. 500)
    #         L[0,10)  L[20,30)  L[40,50)     L[400,410)
    # GPU   kernels at 110, 130, 300 and 900: launches wait in 10-300 and in 410-500, the third one for 250
    found = phases(
        tmp_path,
        nvtx("step", 0, 500),
        *launch(1, 0, wait=100, lasting=20),
        *launch(2, 20, wait=100, lasting=20),
        *launch(3, 40, wait=250, lasting=20),
        *launch(4, 400, wait=490, lasting=20),
    )
    assert found == {"step": (1, 4.0, 500.0, 40.0, 290.0 + 90.0, 80.0, 0.0, 0.0)}


def test_a_range_at_the_edge_of_a_selection_is_whole(tmp_path: Path) -> None:
    rows = [nvtx("step", 0, 100), nvtx("step", 200, 320), *launch(1, 62, wait=8, lasting=5)]
    capture = opened(tmp_path, *rows).select(time="60ns/150ns", clip=True)
    assert capture.report(REPORT).rows() == [("step", 1, 1.0, 100.0, 10.0, 8.0, 5.0, 0.0, 0.0)]


def test_copies_and_graphs_count_for_the_range_that_called_for_them(tmp_path: Path) -> None:
    found = phases(
        tmp_path,
        nvtx("step", 0, 100),
        call("cudaMemcpyAsync", 0, 5, 1),
        memcpy(1, 10, 17, 64, correlationId=1),
        call("cudaMemsetAsync", 20, 25, 2),
        memset(30, 33, 64, correlationId=2),
        memcpy(11, 40, 90, 4096, correlationId=1),  # a migration: nobody called for it
        call("cudaGraphLaunch", 60, 64, 3),
        graph(70, 95, 3),
    )
    # launches, the range, API, queue, kernel, copy and sync time
    assert found == {"step": (1, 1.0, 100.0, 4.0, 6.0, 25.0, 10.0, 0.0)}


def test_ranges_of_two_threads_hold_their_own_calls(tmp_path: Path) -> None:
    found = phases(
        tmp_path,
        nvtx("main", 0, 100),
        nvtx("worker", 0, 100, tid=101),
        nvtx("idle", 0, 100, tid=99),
        *launch(1, 10, wait=0, lasting=5),
        call("cudaStreamSynchronize", 20, 60, tid=101),
    )
    assert {name: (values[1], values[-1]) for name, values in found.items()} == {
        "main": (1.0, 0.0),
        "worker": (0.0, 40.0),
        "idle": (0.0, 0.0),
    }


def test_a_call_belongs_where_it_starts(tmp_path: Path) -> None:
    found = phases(
        tmp_path, nvtx("first", 0, 100), nvtx("second", 101, 200), call("cudaDeviceSynchronize", 95, 195)
    )
    assert [values[-1] for values in found.values()] == [100.0, 0.0]


def test_registered_names_and_plain_ones(tmp_path: Path) -> None:
    found = phases(
        tmp_path,
        nvtx("plain", 0, 10),
        nvtx(None, 20, 30, textId="registered"),
        nvtx("plain", 40, 60),
        nvtx(None, 70, 80),
        call("cudaFree", 0, 1),
    )
    assert {name: values[0] for name, values in found.items()} == {"plain": 2, "registered": 1, None: 1}


def test_only_closed_ranges_of_a_thread_count(tmp_path: Path) -> None:
    found = phases(
        tmp_path,
        nvtx("left open", 0, None),
        nvtx("other thread", 0, 10, eventType=60, endGlobalTid=global_id(PID, PID + 1)),
        nvtx("mark", 5, None, eventType=34),
        nvtx("domain", 0, None, eventType=75),
        nvtx("took no time", 7, 7),
        call("cudaFree", 0, 1),
    )
    assert found == {"took no time": (1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)}


def test_nvtx_events_as_old_exports_write_them(tmp_path: Path) -> None:
    cells = {
        "start": 0,
        "end": 50,
        "eventType": 59,
        "text": "step",
        "globalTid": call("", 0, 0)[1]["globalTid"],
    }
    found = phases(tmp_path, row(NVTX, **cells), *launch(1, 10, wait=0, lasting=5))
    assert found == {"step": (1, 1.0, 50.0, 10.0, 0.0, 5.0, 0.0, 0.0)}


def test_a_negative_queue_time_is_no_wait(tmp_path: Path) -> None:
    found = phases(tmp_path, nvtx("step", 0, 50), *launch(1, 10, wait=-4, lasting=5))
    assert found["step"][4] == 0.0


def test_start_end_ranges_count_as_others(tmp_path: Path) -> None:
    found = phases(tmp_path, nvtx("job", 0, 50, eventType=60), *launch(1, 10, wait=0, lasting=5))
    assert found == {"job": (1, 1.0, 50.0, 10.0, 0.0, 5.0, 0.0, 0.0)}


def test_a_range_that_a_window_cuts_counts_whole(tmp_path: Path) -> None:
    ranges = [nvtx("step", 100 * i, 100 * i + 60) for i in range(3)]
    launches = [launch(i, 100 * i + 20, wait=5, lasting=30 + i) for i in range(3)]
    capture = opened(tmp_path, *ranges, *(one for pair in launches for one in pair))
    # The window has the end of the first range and the second: launches and times are those of both, whole.
    found = capture.select(time="50ns/180ns").report(REPORT).rows()
    assert found == [("step", 2, 1.0, 60.0, 10.0, 5.0, 30.5, 0.0, 0.0)]
