"""Clocks, times, and what of launches and their work is missing, on paper."""

import lzma
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from conditioned import FULL, H200, MS, OWN, POWER, Sample, around, idle, recorded, sample
from diagnostics_found import ELSEWHERE, LAUNCH, found, launch
from tiny_export import PID, Row, call, diagnostic, global_id, graph, kernel, memcpy, memset, opened, row

from nsyswrap.analysis.conditions import run_conditions_of
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.run_facts import Conditions, GpuProcess, Host
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.reports.summary import trust


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
        call("cudaGraphLaunch_v10000", 140, 145, 8),
        graph(150, 350, 8),  # whole graphs are work, and end late
    )
    causes = "of 1, recording probably ended before it ran; of the others, events were dropped or removed"
    lost = f"3 launch calls without recorded work: {causes} (2 cudaLaunchKernel, 1 cuLaunchKernelEx)"
    assert found(capture, "launches without work") == [("warning", 3, None, lost)]


def test_launches_after_all_with_work_were_cut_off(tmp_path: Path) -> None:
    """The work of the last one with work can end later: a GPU has a queue."""
    capture = opened(tmp_path, call(LAUNCH, 100, 110, 1), kernel("k", 120, 900, 1), call(LAUNCH, 200, 210, 2))
    lost = "1 launch call without recorded work: recording probably ended before it ran (1 cudaLaunchKernel)"
    assert found(capture, "launches without work") == [("warning", 1, None, lost)]


def test_launches_whose_work_was_dropped_or_never_recorded(tmp_path: Path) -> None:
    dropped = opened(tmp_path, *launch(1, 100), call(LAUNCH, 110, 112, 2), *launch(3, 200))
    [(*_, meaning)] = found(dropped, "launches without work")
    assert str(meaning).endswith("events were dropped or removed (1 cudaLaunchKernel)")
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
    assert "of 1, recording probably ended before it ran" in str(meaning)
    assert str(meaning).endswith("(1 cudaLaunchKernel, 1 cudaGraphLaunch_v10000)")


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


def overhead(label: str, start: int, end: int, *, tid: int = PID, kind: int | None = None) -> Row:
    """What the profiler did; ``kind`` is what CUPTI numbers it, from 2025.5 on."""
    more = {} if kind is None else {"overheadType": kind}
    return row("PROFILER_OVERHEAD", start=start, end=end, globalTid=global_id(PID, tid), nameId=label, **more)


def by_cuda(label: str, start: int, end: int, kind: int) -> Row:
    thread = global_id(PID, PID)
    return row(
        "CUPTI_ACTIVITY_KIND_OVERHEAD",
        start=start,
        end=end,
        globalTid=thread,
        nameId=label,
        overheadType=kind,
    )


ANSWER = "a regular result, not a failure"
UNDONE = "the call had no effect; its time still counts"


@pytest.mark.parametrize(
    ("name", "code", "level", "what", "meaning"),
    [
        ("cudaEventQuery_v3020", 600, "info", "not ready", ANSWER),
        ("cuStreamQuery", 600, "info", "not ready", ANSWER),
        ("cudaDeviceEnablePeerAccess_v4000", 704, "info", "peer access already enabled", ANSWER),
        ("cuGetProcAddress_v2", 500, "info", "not found", ANSWER),
        ("cudaFree_v3020", 4, "info", "shutting down", ANSWER),
        ("cudaGetLastError", 2, "info", "out of memory", "repeats the error of an earlier call"),
        ("cudaMalloc_v3020", 2, "warning", "out of memory", UNDONE),
        ("cudaMalloc_v3020", 600, "warning", "not ready", UNDONE),
        (
            *("cudaDeviceSynchronize", 700, "warning", "illegal address"),
            "the CUDA context is lost; no later work ran in it",
        ),
        ("cudaFree", 12345, "warning", "an error", UNDONE),
    ],
)
def test_results_of_api_calls(  # noqa: PLR0913, PLR0917 - what comes out
    tmp_path: Path, name: str, code: int, level: str, what: str, meaning: str
) -> None:
    calls = [call(name, 10 * i, 10 * i + 5, i, returnValue=code) for i in range(1, 4)]
    first, *rest = found(opened(tmp_path, *calls, call("cudaFree", 1, 2)), "API results")
    shown = name[:-6] if name[-6:-4] == "_v" else name
    assert first == (level, 3, None, f"{shown} returned {code} ({what}): {meaning}")
    succeeded = ("ok", 0, None, "no API call failed; 1 API call returned success")
    assert rest == ([] if level == "warning" else [succeeded])


def test_a_result_that_is_missing_is_no_failure(tmp_path: Path) -> None:
    calls = [call("cudaFree", 1, 2, returnValue=None), call("cudaFree", 3, 4)]
    said = "no API call failed; 1 API call returned success"
    assert found(opened(tmp_path, *calls), "API results") == [("ok", 0, None, said)]


def test_results_that_are_not_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("cudaFree", 1, 5), without=["returnValue"])
    assert found(capture, "API results") == [
        ("info", None, None, "this export has no return values of API calls")
    ]


def test_profiler_overhead_once_per_thread_and_where_it_lies(tmp_path: Path) -> None:
    # 0        100       200       300       400       500
    # API      [100 ------ 200)                          thread 100
    # GPU                      [250-300)      [400-450)  idle: 300-400
    # flush    [120 - 150)
    #             [140 -- 210)                           union 90, 80 in the call
    # init  [10-60)                                      thread 100
    # flush                           [320 - 340)        thread 101, in no call of its own
    capture = opened(
        tmp_path,
        *(call(LAUNCH, 100, 200, 1), kernel("k", 250, 300, 1), kernel("k", 400, 450, 1)),
        *(overhead("flush", 120, 150), overhead("flush", 140, 210), overhead("init(lib.so)", 10, 60)),
        overhead("flush", 320, 340, tid=101),
    )
    in_all = (
        "in total, 80 ns in API calls (80.0 % of that time) and 20 ns while a GPU was idle (20.0 % of "
        "that time)"
    )
    assert found(capture, "profiler overhead") == [
        ("warning", 4, 160, f"{in_all}: these times may be shorter without a profiler"),
        ("info", 3, 110, "flush: 80 ns in API calls and 20 ns while a GPU was idle"),
        ("info", 1, 50, "init: none in API calls or while a GPU was idle"),
    ]


def test_overhead_that_lengthens_nothing(tmp_path: Path) -> None:
    capture = opened(tmp_path, *launch(1, 100), overhead("init", 10, 60))
    in_all, _ = found(capture, "profiler overhead")
    assert in_all == ("info", 1, 50, "in total, 0 ns in API calls (0.0 % of that time)")
    (tmp_path / "alone").mkdir()
    [(*_, meaning), _] = found(
        opened(tmp_path / "alone", overhead("init", 10, 60), ELSEWHERE), "profiler overhead"
    )
    assert meaning == "in total, without API calls or GPU idle time to affect"


def test_what_cuda_does_by_itself_is_no_cost_of_profiling(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        call(LAUNCH, 100, 200, 1),
        overhead("flush", 110, 115, kind=3),
        by_cuda("flush", 110, 115, 3),  # stands in both tables: counts once
        by_cuda("Lazy Function Loading", 120, 180, 7),
    )
    assert [(level, count, time) for level, count, time, _ in found(capture, "profiler overhead")] == [
        ("info", 1, 5),
        ("info", 1, 5),
    ]
    said = "Lazy Function Loading: 60 ns in API calls; also present without a profiler"
    assert found(capture, "CUDA overhead") == [("info", 1, 60, said)]


def test_names_that_the_export_lacks(tmp_path: Path) -> None:
    whole = opened(tmp_path, *launch(1, 100), kernel("a", 0, 5), kernel("b", 5, 9))
    assert found(whole, "names") == []
    (tmp_path / "cut").mkdir()
    cut = opened(tmp_path / "cut", *launch(1, 100), kernel("a", 0, 5), kernel(77, 5, 9), kernel(78, 5, 9))
    again = "reports cannot tell these events apart. Export the .nsys-rep again"
    assert found(cut, "names") == [
        ("loss", 2, None, f"the export lacks the names of 2 of {cut.count('kernel')} kernels; {again}")
    ]


DATA = Path(__file__).resolve().parents[1] / "data"
# As in test_conditions: 19 samples, from 1.2 s to 3.0 s.
ROWS = [
    call("cudaLaunchKernel", 1000 * MS, 1001 * MS, 1),
    kernel("k", 1050 * MS, 2950 * MS, 1),
    diagnostic("Profiling has started.", severity=1),
]
SAME = "compare with runs at the same clock, or lock a lower clock with `nvidia-smi -lgc`"
SHARED = "this may have delayed the work of this program; run again on a GPU of your own"
COMPLETE = "1 kernel; trace complete"
MORE = "(-r diagnostics)"


def run(
    folder: Path, *processes: GpuProcess, work: Iterable[Sample] | None = None, host: Host | None = None
) -> CaptureReader:
    """A run whose GPU has a steady clock, unless ``work`` says otherwise."""
    samples = [sample(1100 + 100 * i) for i in range(20)] if work is None else work
    gpu = replace(H200, processes=processes or (OWN,))
    return recorded(folder / "run", ROWS, around(samples), Conditions((gpu,), host or Host()))


def test_a_sound_run(tmp_path: Path) -> None:
    capture = run(tmp_path)
    steady = "GPU 0: steady SM clock of 1980 MHz (maximum 1980), median of 19 samples"
    assert found(capture, "GPU clocks") == [("ok", 0, None, steady)]
    assert found(capture, "GPU throttling") == [("ok", 0, None, "GPU 0: throttled in 0.0 % of 19 samples")]
    alone = "no other process found on the GPUs of the run"
    assert found(capture, "other processes") == [("ok", 0, None, alone)]
    assert found(capture, "host load") == []
    assert trust(capture).lines == [COMPLETE]


def test_a_throttled_gpu(tmp_path: Path) -> None:
    # 1215 MHz and 1545 MHz by turns, throttled in 18 of 19
    work = [sample(1100 + 100 * i, 1215 if i % 2 else 1545, 690, POWER if i > 1 else FULL) for i in range(20)]
    capture = run(tmp_path, work=work)
    throttled = "GPU 0 throttled (power limit) in 94.7 % of samples: SM clock 1215 to 1545 MHz"
    [(level, count, time_ns, meaning)] = found(capture, "GPU throttling")
    assert (level, count, time_ns) == ("warning", 19, None)
    assert meaning == f"{throttled}; kernels may have been slower than at full clock (maximum 1980); {SAME}"
    varied = "GPU 0: SM clock varied from 1215 to 1545 MHz (5th to 95th percentile)"
    effect = f"equal kernels may differ by 27 %; {SAME}"  # 330 of the median, 1215
    assert found(capture, "GPU clocks") == [("warning", 19, None, f"{varied}; {effect}")]
    assert trust(capture).lines == [f"{COMPLETE} {MORE}", f"  {throttled}"]
    assert capture.brief()["conditions"] == [throttled]


def test_a_throttled_sample_of_twenty_one_is_no_warning(tmp_path: Path) -> None:
    for number, (reasons, level) in enumerate(
        [([0, 0, *[FULL] * 17, POWER], "warning"), ([0] * 20, "ok"), ([POWER, *[0] * 19], "ok")]
    ):
        work = [sample(1100 + 100 * i, 1900, reasons=bits) for i, bits in enumerate(reasons)]
        [(found_level, *_)] = found(run(tmp_path / str(number), work=work), "GPU throttling")
        assert found_level == level


@pytest.mark.parametrize(
    ("clock", "level", "meaning"),
    [
        (1980, "ok", "GPU 0: SM clock at its maximum in each of 19 samples"),
        (1965, "warning", "GPU 0 throttled (power limit) in 100.0 % of samples: SM clock 1965 MHz; "),
    ],
)
def test_a_reason_without_a_lower_clock_is_no_throttling(
    tmp_path: Path, clock: int, level: str, meaning: str
) -> None:
    capture = run(tmp_path, work=[sample(1100 + 100 * i, clock, 690, POWER) for i in range(20)])
    [(found_level, *_, found_meaning)] = found(capture, "GPU throttling")
    assert found_level == level
    assert str(found_meaning).startswith(meaning)
    assert len(trust(capture).lines) == (1 if level == "ok" else 2)
    assert len(capture.brief()["conditions"]) == (0 if level == "ok" else 1)


@pytest.mark.parametrize(("lower", "level"), [(1885, "ok"), (1875, "warning")])
def test_a_clock_that_varied_by_more_than_5_percent(tmp_path: Path, lower: int, level: str) -> None:
    # the median is 1980; 95 MHz are 4.8 % of it, 105 MHz are 5.3 %
    work = [sample(1100 + 100 * i, lower if i % 3 == 1 else 1980) for i in range(20)]
    capture = run(tmp_path, work=work)
    assert [row[0] for row in found(capture, "GPU clocks")] == [level]
    lines = (
        []
        if level == "ok"
        else [f"  GPU 0: SM clock varied from {lower} to 1980 MHz (5th to 95th percentile)"]
    )
    assert trust(capture).lines[1:] == lines
    assert capture.brief()["conditions"] == [line.strip() for line in lines]


def test_idle_clocks_before_and_after_the_work_do_not_count(tmp_path: Path) -> None:
    work = [*(idle(100 * i) for i in range(11)), *(sample(1100 + 100 * i) for i in range(20))]
    assert trust(run(tmp_path, work=work)).lines == [COMPLETE]


def test_a_gpu_that_is_mostly_idle(tmp_path: Path) -> None:
    rows = [kernel("k", ms * MS, ms * MS + 1000) for ms in range(1050, 2951, 100)]
    work = [idle(1100 + 100 * i) if i % 4 else sample(1100 + 100 * i) for i in range(20)]  # 15 of 19
    capture = recorded(tmp_path / "run", rows, around(work))
    share = "GPU 0 had its idle clock in 78.9 % of the samples around its work"
    idle_clock = ("info", 41, None, f"{share}: kernels may begin at a low clock")
    assert found(capture, "GPU clocks") == [idle_clock]


def test_work_that_is_too_short(tmp_path: Path) -> None:
    rows = [kernel("k", 1050 * MS, 1054 * MS)]
    capture = recorded(tmp_path / "run", rows, around([sample(1100, 700, reasons=POWER)]))
    short = "0 samples while GPU 0 worked, one every 100 ms: too few to judge its clock (at least 5)"
    assert found(capture, "GPU clocks") == [("info", None, None, short)]
    assert found(capture, "GPU throttling") == []
    assert trust(capture).lines[1:] == []


OTHER = GpuProcess(4242, "python", in_run=False)


@pytest.mark.parametrize(
    ("processes", "finding"),
    [
        ([OTHER, OWN], "another process on GPU 0: python, pid 4242"),
        ([replace(OTHER, name="")], "another process on GPU 0: pid 4242"),
        ([OTHER, replace(OTHER, pid=2), OWN], "2 other processes on GPU 0: python, pid 4242 and 1 more"),
        ([GpuProcess(7, "", in_run=None, began_before=True)], "possibly another process on GPU 0: pid 7"),
    ],
)
def test_another_process(tmp_path: Path, processes: list[GpuProcess], finding: str) -> None:
    capture = run(tmp_path, *processes)
    [(level, _, _, meaning)] = found(capture, "other processes")
    assert (level, meaning) == ("warning", f"{finding}; {SHARED}")
    assert trust(capture).lines == [f"{COMPLETE} {MORE}", f"  {finding}"]


UNSEEN = GpuProcess(7, "", in_run=None)


@pytest.mark.parametrize("processes", [(UNSEEN,), (OWN, UNSEEN), (UNSEEN, replace(UNSEEN, pid=8))])
def test_a_process_that_cannot_be_seen_may_be_the_program(
    tmp_path: Path, processes: tuple[GpuProcess, ...]
) -> None:
    capture = run(tmp_path, *processes)
    not_known = "the processes on the GPUs of the run are not known"
    assert found(capture, "other processes") == [("info", None, None, not_known)]
    assert trust(capture).lines == [COMPLETE]


def test_a_gpu_without_any_process_did_not_report_them(tmp_path: Path) -> None:
    capture = recorded(tmp_path / "run", ROWS, around([]), Conditions((replace(H200, processes=()),)))
    [(level, count, _, meaning)] = found(capture, "other processes")
    assert (level, count, meaning) == ("info", None, "the processes on the GPUs of the run are not known")


@pytest.mark.parametrize(("load", "rows"), [((31.9, 40.0), 0), ((32.0, 0.5), 1), ((), 0)])
def test_the_load_before_the_run(tmp_path: Path, load: tuple[float, ...], rows: int) -> None:
    capture = run(tmp_path, host=Host(cores=8, load=load, machine_cores=32))
    effect = "unless an earlier run caused it, other programs may have delayed the host"
    text = f"load of 32.0 before the run on 32 cores: {effect}"
    assert found(capture, "host load") == [("info", 1, None, text)] * rows


@pytest.mark.parametrize(("node", "nodes"), [(1, (0, 1)), (None, (0,)), (1, ())])
def test_a_gpu_near_the_cores(tmp_path: Path, node: int | None, nodes: tuple[int, ...]) -> None:
    facts = Conditions((replace(H200, numa_node=node),), Host(numa_nodes=nodes))
    assert found(recorded(tmp_path / "run", ROWS, around([]), facts), "NUMA") == []


def test_a_gpu_on_another_numa_node_than_the_cores(tmp_path: Path) -> None:
    facts = Conditions((replace(H200, numa_node=1),), Host(numa_nodes=(0,)))
    capture = recorded(tmp_path / "run", ROWS, around([]), facts)
    [(level, _, _, text)] = found(capture, "NUMA")
    far = "GPU 0 is on NUMA node 1, the cores of the program on node 0"
    bind = "numactl --cpunodebind=1 --membind=1"
    assert (level, text) == ("warning", f"{far}; copies and launches take longer; run it with {bind}")
    assert f"  {far}" in trust(capture).lines


def test_a_load_of_an_unknown_number_of_cores(tmp_path: Path) -> None:
    assert found(run(tmp_path, host=Host(cores=8, load=(60.0,))), "host load") == []


def test_several_gpus_have_one_line_for_each_subject(tmp_path: Path) -> None:
    # which of the two GPUs worked is not known: both are listed
    gpus = tuple(replace(H200, uuid=f"GPU-{i}", index=i, processes=(OTHER,)) for i in range(2))
    capture = recorded(tmp_path / "run", ROWS, around([]), Conditions(gpus))
    assert trust(capture).lines[1:] == ["  another process on GPU 0: python, pid 4242; also on 1 other GPU"]
    assert [row[1] for row in found(capture, "other processes")] == [1, 1]
    [(level, count, _, meaning)] = found(capture, "GPU clocks")
    assert (level, count) == ("info", None)
    assert str(meaning).startswith("clocks and throttling unknown: the export does not tell which GPU")


def two_gpus(folder: Path, *work: list[Sample], others: tuple[GpuProcess, ...] = ()) -> CaptureReader:
    """A run of two GPUs that worked at the same time, each with samples of its own."""
    rows = list(ROWS)
    for i in range(2):
        rows += [kernel("k", 1050 * MS, 2950 * MS, 1, deviceId=i)]
        rows += [row("TARGET_INFO_GPU", id=i, name="GPU", uuid=str(i))]
        rows += [row("TARGET_INFO_CUDA_DEVICE", pid=100, cudaId=i, gpuId=i)]
    gpus = tuple(replace(H200, uuid=str(i), index=i, processes=(OWN, *others)) for i in range(2))
    samples = [one for i in range(2) for one in around(work[i], gpu=i)]
    return recorded(folder / "run", rows, samples, Conditions(gpus))


def test_a_throttled_gpu_does_not_hide_the_clock_of_another(tmp_path: Path) -> None:
    throttled = [sample(1100 + 100 * i, 1900, reasons=POWER) for i in range(20)]
    varied = [sample(1100 + 100 * i, 1200 if i % 3 == 1 else 1900, gpu=1) for i in range(20)]
    assert trust(two_gpus(tmp_path, throttled, varied)).lines[1:] == [
        "  GPU 0 throttled (power limit) in 100.0 % of samples: SM clock 1900 MHz",
        "  GPU 1: SM clock varied from 1200 to 1900 MHz (5th to 95th percentile)",
    ]


def test_long_lines_are_wrapped(tmp_path: Path) -> None:
    reasons = 0x4 | 0x8 | 0x20
    work = [
        [sample(1100 + 100 * i, 1200 + i, reasons=reasons, gpu=gpu) for i in range(20)] for gpu in range(2)
    ]
    others = (replace(OTHER, name="x" * 60), replace(OTHER, pid=2))
    assert trust(two_gpus(tmp_path, *work, others=others)).lines[1:] == [
        "  GPU 0 throttled (power limit, hardware slowdown, temperature (software)) in",
        "    100.0 % of samples: SM clock 1201 to 1219 MHz; also on 1 other GPU",
        f"  2 other processes on GPU 0: {'x' * 26}…{'x' * 13}, pid 4242",
        "    and 1 more; also on 1 other GPU",
    ]


def test_samples_that_are_damaged(tmp_path: Path) -> None:
    capture = recorded(tmp_path / "run", ROWS, "text\x1b[2J\n")
    [(level, count, _, meaning)] = found(capture, "GPU clocks")
    assert (level, count) == ("info", None)
    assert meaning == "clocks and throttling unknown: conditions.csv cannot be read: no column time_ns"
    assert trust(capture).lines == [COMPLETE]


def test_a_run_without_nvml(tmp_path: Path) -> None:
    capture = recorded(tmp_path / "run", ROWS, None, Conditions(host=Host("gpu07")))
    reason = "clocks and throttling unknown: the driver's NVML reported no GPU"
    assert found(capture, "GPU clocks") == [("info", None, None, reason)]
    assert found(capture, "other processes") == []
    assert trust(capture).lines == [COMPLETE]


def test_a_capture_of_no_run(tmp_path: Path) -> None:
    capture = opened(tmp_path, *ROWS)
    not_recorded = "clocks, throttling and other processes not recorded; record with `nsyswrap profile`"
    assert found(capture, "GPU clocks") == [("info", None, None, not_recorded)]
    assert trust(capture).lines == [COMPLETE]


def test_a_real_gpu_at_its_power_limit(tmp_path: Path) -> None:
    """Recorded: see tests/data/throttled."""
    for file in (DATA / "throttled").iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / EXPORT).write_bytes(lzma.decompress((tmp_path / f"{EXPORT}.xz").read_bytes()))
    capture = open_capture(tmp_path)
    throttled = "GPU 0 throttled (power limit) in 100.0 % of samples: SM clock 1230 to 1845 MHz"
    assert trust(capture).lines[0].endswith("trace complete (-r diagnostics)")
    assert trust(capture).lines[1:] == [f"  {throttled}"]
    conditions = run_conditions_of(capture)
    assert conditions is not None
    [gpu] = conditions.gpus
    assert gpu.count == 60  # of 114: six seconds of work
    assert gpu.power_w is not None
    assert 680 < gpu.power_w.median < 700
