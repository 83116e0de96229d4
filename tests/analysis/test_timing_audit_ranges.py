"""One judgement per NVTX range, worked out on paper. Drawings and numbers are in microseconds."""

from pathlib import Path
from typing import Any

import pytest
from tiny_export import PID, Row, call, global_id, graph, kernel, memcpy, nvtx, opened

from nsyswrap.analysis.timing_audit import VERDICTS, Audit, audit
from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING

OTHER = 101  # another thread


def micro(event: Row) -> Row:
    """Turn a row's microseconds into nanoseconds."""
    times = ((name, event.cells.get(name)) for name in ("start", "end"))
    ns = {name: round(time * 1000) for name, time in times if isinstance(time, (int, float))}
    return Row(event.table, {**event.cells, **ns})


def launch(correlation: int, at: int, start: int, end: int, tid: int = PID, **more: object) -> list[Row]:
    """A launch call of 2 µs, and when its kernel ran."""
    made = call("cudaLaunchKernel", at, at + 2, correlation, tid=tid)
    ran = kernel("k", start, end, correlation)
    return [made, Row(ran.table, {**ran.cells, **more})]


def until(end: float, ran: Row) -> Row:
    return Row(ran.table, {**ran.cells, "end": end})


def sync(start: int, end: int, tid: int = PID) -> Row:
    return call("cudaDeviceSynchronize", start, end, 0, tid=tid)


def capture_of(folder: Path, *rows: Row, without: tuple[str, ...] = ()) -> CaptureReader:
    some_call = call("cudaGetDevice", -5, -4)
    return opened(folder, *map(micro, (some_call, *rows)), without=without)


def judged(capture: CaptureReader) -> list[dict[str, Any]]:
    """What is said of each range, in microseconds."""
    return [_one(audit(capture), i) for i in range(len(audit(capture)))]


def _one(found: Audit, i: int) -> dict[str, Any]:
    times = ("host", "should", "api", "sync", "own_gpu", "own_busy", "own_end_after", "earlier", "other")
    ns = {name: int(getattr(found, f"{name}_ns")[i]) for name in times}
    us = {name: None if time == MISSING else time / 1000 for name, time in ns.items()}
    return {"verdict": VERDICTS[found.verdict[i]], "launches": int(found.launches[i]), **us}


def only(folder: Path, *rows: Row, **expected: object) -> None:
    """The one range of these rows is judged as expected."""
    [one] = judged(capture_of(folder, *rows))
    assert one == one | expected


# An older kernel runs from 5 to 25; ranges that start at 10 start on a busy GPU.
OLDER = launch(1, 0, 5, 25)


def test_complete(tmp_path: Path) -> None:
    # range 0 [ launch 2-4 | wait 5-24 ] 30;  kernel 8-20
    rows = (nvtx("r", 0, 30), *launch(1, 2, 8, 20), sync(5, 24))
    times = {"host": 30, "should": 30, "api": 21, "sync": 19, "own_gpu": 12, "own_busy": 12}
    only(tmp_path, *rows, verdict="complete", launches=1, own_end_after=-10, earlier=0, other=0, **times)


def test_launch_only(tmp_path: Path) -> None:
    # range 0 [ launch 2-4 ] 10;  kernel 8-20: its end is what was meant
    rows = (nvtx("r", 0, 10), *launch(1, 2, 8, 20))
    only(tmp_path, *rows, verdict="launch only", should=20, own_end_after=10, earlier=0, sync=0)


def test_earlier_work_that_a_synchronise_waits_for(tmp_path: Path) -> None:
    # range 10 [ wait 12-26 | launch 30-32 | wait 41-45 ] 50;  older until 25, own kernel 36-40
    # lost: 12 to 25, not the whole wait, and no wait after the launch
    rows = (*OLDER, nvtx("r", 10, 50), sync(12, 26), *launch(2, 30, 36, 40), sync(41, 45))
    only(tmp_path, *rows, verdict="includes earlier work", should=40 - 13, earlier=15, sync=18)


def test_earlier_work_that_the_first_operation_waits_for(tmp_path: Path) -> None:
    # range 10 [ launch 12-14 | wait 15-33 ] 50;  own kernel 25-30, so lost: 14 to 25
    rows = (*OLDER, nvtx("r", 10, 50), *launch(2, 12, 25, 30), sync(15, 33))
    only(tmp_path, *rows, verdict="includes earlier work", should=40 - 11, earlier=15)


def test_mixed(tmp_path: Path) -> None:
    # range 10 [ launch 12-14 ] 20;  own kernel 25-30: 10 to 30, less 14 to 25
    rows = (*OLDER, nvtx("r", 10, 20), *launch(2, 12, 25, 30))
    only(tmp_path, *rows, verdict="mixed", host=10, should=20 - 11, own_end_after=10, earlier=15)


def test_a_blocking_copy_waits_from_its_start_on(tmp_path: Path) -> None:
    # range 10 [ copy call 12-35 ] 40;  the copy itself 26-33: lost 12 to 25
    rows = (*OLDER, nvtx("r", 10, 40), call("cudaMemcpy", 12, 35, 2), memcpy(2, 26, 33, 8, correlationId=2))
    only(tmp_path, *rows, verdict="includes earlier work", should=30 - 13, launches=1, own_gpu=7, sync=0)


def test_a_wait_without_launches_is_for_earlier_work(tmp_path: Path) -> None:
    rows = (*OLDER, nvtx("r", 10, 30), sync(12, 26))
    only(tmp_path, *rows, verdict="includes earlier work", launches=0, should=20 - 13, own_end_after=None)


@pytest.mark.parametrize("calls", [(), (sync(26, 28),), (sync(24, 28),), (call("cudaMalloc", 12, 20),)])
def test_no_gpu_work_and_no_wait_for_any(calls: tuple[Row, ...], tmp_path: Path) -> None:
    rows = (*OLDER, nvtx("r", 10, 30), *calls)  # 24 to 25: within the tolerance
    only(tmp_path, *rows, verdict="no GPU work", should=20, earlier=15, own_gpu=0, own_end_after=None)


@pytest.mark.parametrize(("over", "verdict", "should"), [(1, "complete", 30), (1.001, "launch only", 31.001)])
def test_an_end_may_be_late_by_a_microsecond(
    over: float, verdict: str, should: float, tmp_path: Path
) -> None:
    made, ran = launch(1, 2, 8, 30)
    rows = (nvtx("r", 0, 30), made, until(30 + over, ran))
    only(tmp_path, *rows, verdict=verdict, should=should, own_end_after=over)


@pytest.mark.parametrize(("left", "verdict"), [(1, "complete"), (1.001, "includes earlier work")])
def test_earlier_work_may_last_for_a_microsecond(left: float, verdict: str, tmp_path: Path) -> None:
    made, ran = launch(1, 0, 5, 10)
    rows = (made, until(10 + left, ran), nvtx("r", 10, 30), *launch(2, 12, 15, 18))
    only(tmp_path, *rows, verdict=verdict, should=20, earlier=left)


def test_work_in_another_stream_is_earlier_and_delays_nothing(tmp_path: Path) -> None:
    # older 5-100 in stream 8, 5-11 in stream 7;  range 10 [ launch 12-14 ] 30;  own kernel 17-20 in stream 7
    rows = (
        *launch(1, 0, 5, 100, streamId=8),
        *launch(2, 3, 5, 11),
        nvtx("r", 10, 30),
        *launch(3, 12, 17, 20),
    )
    only(tmp_path, *rows, verdict="includes earlier work", should=20, earlier=90)


def test_only_what_ended_before_the_first_operation_can_have_delayed_it(tmp_path: Path) -> None:
    # as above, but what ran in stream 7 did so until 16: own work waited for it since 14
    rows = (
        *launch(1, 0, 5, 100, streamId=8),
        *launch(2, 3, 5, 16),
        nvtx("r", 10, 30),
        *launch(3, 12, 17, 20),
    )
    only(tmp_path, *rows, should=20 - 2, earlier=90)


def test_only_devices_of_the_own_work_count(tmp_path: Path) -> None:
    older = launch(1, 0, 5, 25, deviceId=1)
    (tmp_path / "elsewhere").mkdir()
    rows = (*older, nvtx("r", 10, 30))
    only(tmp_path / "elsewhere", *rows, *launch(2, 12, 16, 20), verdict="complete", earlier=0)
    only(tmp_path, *rows, sync(12, 26), verdict="includes earlier work", earlier=15)  # no own work: all count


def test_own_work_on_two_devices(tmp_path: Path) -> None:
    # older on device 1 until 25, on device 2 until 90;  own kernels on devices 0 and 1, 16-20 and 18-28
    rows = (*launch(1, 0, 5, 25, deviceId=1), *launch(2, 2, 5, 90, deviceId=2), nvtx("r", 10, 40))
    both = (*launch(3, 12, 16, 20), *launch(4, 14, 18, 28, deviceId=1))
    expected = {"earlier": 15, "own_gpu": 14, "own_busy": 12, "own_end_after": -12, "launches": 2}
    only(tmp_path, *rows, *both, verdict="includes earlier work", **expected)


def test_nested_ranges_each_have_what_was_called_in_them(tmp_path: Path) -> None:
    # outer 0 [ inner 1 [ launch 2-4 ] 6 | launch 7-9 ] 40;  kernels 10-20 and 20-30
    rows = (nvtx("outer", 0, 40), nvtx("inner", 1, 6), *launch(1, 2, 10, 20), *launch(2, 7, 20, 30))
    outer, inner = judged(capture_of(tmp_path, *rows))
    assert (outer["verdict"], outer["launches"], outer["own_gpu"], outer["should"]) == ("complete", 2, 20, 40)
    assert (inner["verdict"], inner["launches"], inner["own_gpu"], inner["should"]) == (
        "launch only",
        1,
        10,
        19,
    )


def test_a_call_belongs_to_the_range_it_begins_in(tmp_path: Path) -> None:
    rows = (nvtx("a", 0, 10), nvtx("b", 10, 12), nvtx("c", 12, 30), *launch(1, 10, 14, 16))
    assert [one["launches"] for one in judged(capture_of(tmp_path, *rows))] == [0, 1, 0]


def test_calls_of_runtime_and_driver_are_one_launch(tmp_path: Path) -> None:
    rows = (nvtx("r", 0, 30), call("cudaLaunchKernel", 2, 6, 1), call("cuLaunchKernel", 3, 5, 1))
    only(tmp_path, *rows, kernel("k", 8, 20, 1), launches=1, api=4, own_gpu=12, should=30)


@pytest.mark.parametrize("whole", [True, False])
def test_a_graph_is_one_launch(whole: bool, tmp_path: Path) -> None:  # noqa: FBT001
    nodes = [kernel("k", 8, 12, 1, graphNodeId=3), kernel("k", 10, 20, 1, graphNodeId=4)]
    rows = (nvtx("r", 0, 15), call("cudaGraphLaunch", 2, 4, 1), *([graph(8, 20, 1)] if whole else nodes))
    own = {"own_gpu": 12 if whole else 14, "own_busy": 12}
    only(tmp_path, *rows, verdict="launch only", launches=1, should=20, **own)


def test_an_empty_range(tmp_path: Path) -> None:
    rows = (*OLDER, nvtx("r", 10, 10), *launch(2, 10, 26, 30))
    only(tmp_path, *rows, verdict="no GPU work", host=0, should=0, earlier=15, launches=0)


def test_ranges_left_open_or_ended_elsewhere_are_not_judged(tmp_path: Path) -> None:
    rows = (
        nvtx("open", 0, None),
        nvtx("handed over", 0, 30, eventType=60, endGlobalTid=global_id(PID, OTHER)),
        nvtx("mark", 3, None, eventType=34),
        nvtx("start/end", 1, 30, eventType=60, endGlobalTid=global_id(PID, PID)),
        *launch(1, 2, 8, 20),
    )
    only(tmp_path, *rows, verdict="complete", launches=1)


def test_other_threads_with_ranges_keep_what_they_launch(tmp_path: Path) -> None:
    # main 10 [ launch 12-14 ] 30, worker 10 [ launch 12-14 ] 20;  kernels 16-18 and 17-40
    rows = (nvtx("main", 10, 30), nvtx("worker", 10, 20, tid=OTHER), *launch(1, 12, 16, 18))
    main, worker = judged(capture_of(tmp_path, *rows, *launch(2, 12, 17, 40, tid=OTHER)))
    assert (main["verdict"], main["own_gpu"], main["other"]) == ("complete", 2, 13)
    assert (worker["verdict"], worker["own_gpu"], worker["other"]) == ("launch only", 23, 2)


def test_a_thread_without_ranges_launches_for_the_only_one_with_them(tmp_path: Path) -> None:
    rows = (nvtx("step", 10, 30), *launch(1, 12, 16, 40, tid=OTHER), sync(5, 9, tid=OTHER))
    capture = capture_of(tmp_path, *rows)
    [step] = judged(capture)
    assert (step["verdict"], step["launches"], step["should"], step["other"]) == ("launch only", 1, 30, 0)
    assert step["api"] == 0  # the other thread's time is not this one's
    assert audit(capture).adopted.tolist() == [1]
    (tmp_path / "own").mkdir()
    own = (nvtx("step", 10, 30), *launch(1, 12, 16, 40))
    assert audit(capture_of(tmp_path / "own", *own)).adopted.tolist() == [0]


def test_ranges_of_a_library_on_the_other_thread_take_nothing_away(tmp_path: Path) -> None:
    # backward 10 [ ] 30 on the main thread; another launches at 11, and at 14 in [ 13 library 20 ]
    library = nvtx("sort", 13, 20, tid=OTHER, domainId=1)
    launched = (*launch(1, 11, 16, 40, tid=OTHER), *launch(2, 14, 40, 50, tid=OTHER))
    capture = capture_of(tmp_path, nvtx("backward", 10, 30), library, *launched)
    backward, sort = judged(capture)
    assert (backward["verdict"], backward["launches"], backward["own_gpu"]) == ("launch only", 2, 34)
    assert (sort["verdict"], sort["launches"], sort["own_gpu"]) == ("mixed", 1, 10)
    [first, second] = capture.report("nvtx_phases").rows()
    assert (first[0], first[2], second[0], second[2]) == ("backward", 2.0, "sort", 1.0)


def test_processes_with_equal_correlation_ids(tmp_path: Path) -> None:
    # 10 [ launch 12-14 ] 30 in both; kernels 16-20 and 18-50
    there = {"globalTid": global_id(200, 200)}
    rows = (nvtx("here", 10, 30), *launch(1, 12, 16, 20), nvtx("there", 10, 30, **there))
    apart = [call("cudaLaunchKernel", 12, 14, 1, pid=200), kernel("k", 18, 50, 1, pid=200)]
    here, other = judged(capture_of(tmp_path, *rows, *apart, kernel("k", 0, 99, 2, pid=200, deviceId=1)))
    assert (here["verdict"], here["own_gpu"], here["other"]) == ("complete", 4, 12)
    assert (other["verdict"], other["own_gpu"], other["other"]) == ("launch only", 32, 4)


def test_other_work_counts_once_however_much_there_is(tmp_path: Path) -> None:
    # 10 [ ] 30: threads 12-18 and 14-22, another process 16-20 and 28-40: 12 to 22, and 28 to 30
    rows = (nvtx("r", 10, 30), nvtx("elsewhere", 0, 1, tid=OTHER))
    threads = (*launch(1, 11, 12, 18, tid=OTHER), *launch(2, 13, 14, 22, tid=OTHER))
    foreign = [kernel("k", start, end, None, pid=200) for start, end in ((16, 20), (28, 40))]
    assert judged(capture_of(tmp_path, *rows, *threads, *foreign))[1]["other"] == 12


def test_migrations_are_nobodys_and_calls_may_be_missing(tmp_path: Path) -> None:
    # a migration 5-20, and a kernel 5-15 and one 16-19 whose calls were not recorded
    rows = (nvtx("r", 10, 30), memcpy(11, 5, 20, 8), kernel("k", 5, 15, 7), kernel("k", 16, 19, 8))
    only(
        tmp_path,
        *rows,
        *launch(1, 20, 23, 25),
        verdict="includes earlier work",
        earlier=5,
        other=3,
        should=20,
    )


def test_exports_that_do_not_say_whose_an_operation_is(tmp_path: Path) -> None:
    rows = (*OLDER, nvtx("r", 10, 20), *launch(2, 12, 25, 30))
    [one] = judged(capture_of(tmp_path, *rows, without=("globalPid",)))
    assert (one["verdict"], one["should"], one["earlier"]) == ("mixed", 9, 15)


@pytest.mark.parametrize(
    ("rows", "warm_up"),
    [
        (launch(1, 2, 8, 20), [True, False]),  # the first launch of its name
        ([*launch(1, -3, -1, 0), *launch(2, 2, 8, 20)], [False, False]),
        ([call("cuModuleLoadData", 2, 4)], [True, False]),
        (
            [call("cuModuleLoadData", 2, 4, tid=OTHER)],
            [False, False],
        ),  # nothing shows that the range caused it
        ([call("cuKernelGetName", 2, 4), call("cudaFuncSetAttribute", 5, 6)], [False, False]),
        ([call("cudaMemcpy", 2, 9, 1), memcpy(1, 4, 8, 8, correlationId=1)], [False, False]),
    ],
)
def test_warm_up_is_a_first_launch_or_a_load(rows: list[Row], warm_up: list[bool], tmp_path: Path) -> None:
    again = launch(9, 52, 58, 60) if any("demangledName" in event.cells for event in rows) else []
    capture = capture_of(tmp_path, nvtx("r", 0, 30), nvtx("r", 50, 90), *rows, *again)
    assert audit(capture).warm_up.tolist() == warm_up


def test_a_selection_chooses_ranges_and_changes_nothing_about_them(tmp_path: Path) -> None:
    rows = (*OLDER, nvtx("a", 2, 4), nvtx("b", 10, 20), nvtx("c", 40, 50), *launch(2, 12, 25, 30))
    capture = capture_of(tmp_path, *rows)
    [part] = judged(capture.select(time="12us/15us", clip=True))
    assert (part, part["verdict"]) == (judged(capture)[1], "mixed")
