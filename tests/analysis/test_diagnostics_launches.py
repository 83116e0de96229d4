"""Clocks, times, and what of launches and their work is missing, on paper."""

from pathlib import Path

import pytest
from diagnostics_found import LAUNCH, found, launch
from tiny_export import PID, Row, call, graph, kernel, memcpy, memset, opened


def altered(event: Row, **cells: object) -> Row:
    return Row(event.table, {**event.cells, **cells})


def test_work_that_began_before_its_call_by_kind(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(call(LAUNCH, 100, 110, 1), kernel("k", 97, 120, 1)),  # 3 ns before
        *(call(LAUNCH, 200, 210, 2), kernel("k", 180, 190, 2)),  # 20
        *(call(LAUNCH, 300, 310, 3), kernel("k", 300, 320, 3)),  # at once: that can be
        *(call("cudaMemcpy", 400, 410, 4), memcpy(1, 395, 420, 8, correlationId=4)),
        *(call("cudaMemset", 500, 510, 5), memset(520, 530, 8, correlationId=5)),
        memcpy(11, 1, 5, 8, correlationId=5),  # a migration is nobody's
    )
    advice = "the clocks disagree by this much; shorter latencies and queue times are not reliable"
    assert found(capture, "CPU and GPU clocks") == [
        ("warning", 2, 20, f"2 kernels began up to 20 ns before the launch call: {advice}"),
        ("warning", 1, 5, f"1 copy began up to 5 ns before the launch call: {advice}"),
    ]


def test_the_outer_call_is_the_one_that_counts(tmp_path: Path) -> None:
    # runtime 10 ---------- 20, driver 14 -- 18, kernel from 12
    calls = [call(LAUNCH, 10, 20, 1), call("cuLaunchKernel", 14, 18, 1, eventClass=1)]
    capture = opened(tmp_path, *calls, kernel("k", 12, 30, 1))
    [(level, _, _, meaning)] = found(capture, "CPU and GPU clocks")
    assert (level, meaning) == ("ok", "no operation began before its launch call; shortest delay 2 ns")
    assert [level for level, *_ in found(capture, "launches without work")] == ["ok"]
    assert [level for level, *_ in found(capture, "correlation ids")] == ["ok"]


def test_two_processes_with_the_same_ids_are_kept_apart(tmp_path: Path) -> None:
    # Joined on the id alone, the kernels of 7 would have begun before the calls of 100.
    capture = opened(tmp_path, *launch(1, 1000), *launch(1, 10, pid=7))
    assert [level for level, *_ in found(capture, "CPU and GPU clocks")] == ["ok"]
    assert [level for level, *_ in found(capture, "correlation ids")] == ["ok"]


def test_times_that_cannot_be(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(kernel("k", 50, 40), kernel("k", 50, 43), kernel("k", 50, 50)),
        graph(0, 9, 1),
        call("cudaFree", 90, 80),
        call("cudaFree", -5, 8),
    )
    assert found(capture, "times") == [
        ("warning", 2, 10, _backwards("2 kernels", 10)),
        ("warning", 1, None, _not_measured("1 whole-graph execution")),
        ("warning", 1, 10, _backwards("1 API call", 10)),
        ("warning", 1, None, _not_measured("1 API call")),
    ]


def _backwards(which: str, ns: int) -> str:
    effect = "negative durations make totals and means too low"
    return f"{which} ended up to {ns} ns before the start: {effect}"


def _not_measured(which: str) -> str:
    return f"{which} started at 0 ns or before: not a measured time, as recording begins at 0"


def test_launches_whose_work_is_missing(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *launch(1, 100),
        call(LAUNCH, 110, 112, 2),  # dropped: between two that are there
        *(call(LAUNCH, 120, 130, 3), call("cuLaunchKernel", 122, 128, 3, eventClass=1)),  # one launch, too
        *launch(4, 200),
        call("cuLaunchKernelEx", 300, 310, 5),  # after the last
        *(call("cudaLaunchHostFunc", 320, 330, 6), call("cudaMemcpy", 340, 350, 7)),  # launch nothing
        call("cudaGraphLaunch_v10000", 400, 410, 8),
        graph(150, 160, 8),  # whole graphs are work
    )
    lost = "3 launch calls without recorded work (2 cudaLaunchKernel, 1 cuLaunchKernelEx)"
    late = "1 of them after the last recorded work of their process"
    cause = "recording probably ended before the work ran"
    assert found(capture, "launches without work") == [("warning", 3, None, f"{lost}, {late}: {cause}")]


def test_launches_whose_work_was_dropped_or_never_recorded(tmp_path: Path) -> None:
    dropped = opened(tmp_path, *launch(1, 100), call(LAUNCH, 110, 112, 2), *launch(3, 200))
    [(*_, meaning)] = found(dropped, "launches without work")
    assert str(meaning).endswith("(1 cudaLaunchKernel): events were dropped or removed")
    (tmp_path / "none").mkdir()
    alone = opened(tmp_path / "none", call(LAUNCH, 110, 112, 2))
    [(level, count, *_)] = found(alone, "launches without work")
    assert (level, count) == ("warning", 1)


def test_the_last_work_is_that_of_the_own_process(tmp_path: Path) -> None:
    # 100's last kernel begins at 120, 7's at 520: the graph of 7, at 200, is between its own
    capture = opened(
        tmp_path,
        *(launch(1, 100)),
        *(launch(1, 110, pid=7) + launch(2, 500, pid=7)),
        *(call(LAUNCH, 200, 210, 8), call("cudaGraphLaunch_v10000", 200, 210, 8, pid=7)),
    )
    [(_, count, _, meaning)] = found(capture, "launches without work")
    assert count == 2
    assert "(1 cudaLaunchKernel, 1 cudaGraphLaunch_v10000), 1 of them after the last" in str(meaning)


def test_failed_launches_stand_apart(tmp_path: Path) -> None:
    capture = opened(tmp_path, *launch(1, 100), call(LAUNCH, 110, 112, 2, returnValue=701))
    said = "1 launch call failed and started nothing; the GPU work is missing"
    assert found(capture, "launches without work") == [("warning", 1, None, said)]


def test_launches_into_a_graph_that_is_being_captured_start_nothing(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *launch(1, 10),
        call("cudaStreamEndCapture_v10000", 50, 51, 10),  # of a capture that began before recording did
        call("cudaStreamBeginCapture_v10000", 60, 61, 11, returnValue=900),  # failed: none begins
        call("cudaStreamBeginCapture_v10000", 100, 101, 12),
        call(LAUNCH, 110, 112, 2),
        call(LAUNCH, 113, 114, 9, returnValue=900),  # failed
        call(LAUNCH, 115, 117, 3, tid=101),  # any thread of the process may launch into it
        call(LAUNCH, 118, 119, 3, pid=7),  # but no other process
        call("cudaStreamEndCapture_v10000", 120, 121, 13),
        call(LAUNCH, 130, 131, 4),  # behind it
        call(LAUNCH, 70, 71, 5),  # before it
        *launch(6, 200),
    )
    failed, lost, captured = found(capture, "launches without work")
    assert failed[:2] == ("warning", 1)
    assert lost[:2] == ("warning", 3)
    said = "2 launch calls during CUDA graph capture"
    assert captured == ("info", 2, None, f"{said}; the work starts with the launch of the graph")


def test_a_captured_graph_alone_is_no_trouble(tmp_path: Path) -> None:
    begin, end = call("cuStreamBeginCapture_v2", 10, 11, 1), call("cuStreamEndCapture", 30, 31, 2)
    capture = opened(tmp_path, begin, call("cuLaunchKernel", 20, 21, 3), end, *launch(4, 50))
    assert [(level, meaning) for level, _, _, meaning in found(capture, "launches without work")][1:] == [
        ("ok", "the work of every other launch call is recorded")
    ]


def test_work_without_its_launch_by_kind_and_why(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(kernel("k", 5, 8, 90), kernel("k", 9, 12, 91)),  # before the first whose call is there
        *launch(1, 100),
        kernel("k", 300, 310, 92),
        memcpy(1, 400, 410, 8, correlationId=93),
        memset(50, 60, 8, correlationId=94),
        memcpy(12, 420, 430, 8),  # a migration needs none
        graph(500, 510, 95),
    )
    without = "without a recorded launch call, so without API time and NVTX range"
    gone = "launched from the GPU, or the call was dropped or removed"
    midway = "before the first work with a launch call: recording probably began midway"
    assert found(capture, "work without launch") == [
        ("warning", 3, None, f"3 kernels {without}; 2 of them {midway}"),
        ("warning", 1, None, f"1 copy {without}; {gone}"),
        ("warning", 1, None, f"1 memset {without}; all {midway}"),
        ("warning", 1, None, f"1 whole-graph execution {without}; {gone}"),
    ]


def test_migrations_alone_have_no_launch_to_miss(tmp_path: Path) -> None:
    capture = opened(tmp_path, memcpy(11, 10, 20, 8), call("cudaMallocManaged", 1, 5))
    said = "no launched GPU operation to check"
    assert found(capture, "work without launch") == [("info", None, None, said)]


def test_ids_that_two_calls_share(tmp_path: Path) -> None:
    # Two calls of one thread, one after the other; two of two threads, one inside the other in time.
    capture = opened(
        tmp_path,
        *(call(LAUNCH, 10, 20, 1), call(LAUNCH, 30, 40, 1), kernel("k", 50, 60, 1)),
        *(
            call(LAUNCH, 100, 200, 2),
            call(LAUNCH, 110, 120, 2, tid=101),
            memset(250, 260, 8, correlationId=2),
        ),
        *launch(3, 300),
    )
    doubt = "with a correlation id shared by two calls of the process: the API time, latency and NVTX range"
    assert found(capture, "correlation ids") == [
        ("warning", 1, None, f"1 kernel {doubt} may belong to the other call"),
        ("warning", 1, None, f"1 memset {doubt} may belong to the other call"),
    ]


@pytest.mark.parametrize(("pids", "level"), [((PID,), "info"), ((PID, 7), "warning")])
def test_work_that_does_not_say_its_process(tmp_path: Path, pids: tuple[int, ...], level: str) -> None:
    rows = [event for i, pid in enumerate(pids) for event in launch(i, 10 + 100 * i, pid)]
    [(said, count, *_)] = found(opened(tmp_path, *rows, without=["globalPid"]), "correlation ids")
    assert (said, count) == (level, len(pids))
