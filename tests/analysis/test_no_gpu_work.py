"""Why a capture holds no GPU work: recorded captures of programs that use the GPU unseen, and made ones.

What is said must follow from the evidence. A cause without it begins with "possibly".
"""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from diagnostics_found import found as rows_on
from tiny_export import DIAGNOSTIC, Row, call, global_id, kernel, memcpy, nvtx, row, write

from nsyswrap.analysis.no_gpu_work import missing_processes, no_gpu_work, was_traced
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.run_folder import EXPORT, RUN, RunFolder, Status
from nsyswrap.reports import find_report
from nsyswrap.reports.answer import answer_lines
from nsyswrap.reports.summary import answer_with_lines, trust
from nsyswrap.reports.wording.checks import worded

SILENT = Path(__file__).resolve().parents[1] / "data" / "silent"
NO_GPU_CURE = "record where a GPU is, or see nsyswrap demo"
FORKED = {"pid": 101, "name": "worker", "parent": 100, "forked": True}
EXECUTED = {"pid": 102, "name": "server", "parent": 100, "forked": False}
SPAWN = "start workers with spawn, or use nsyswrap profile --follow-forks"


@pytest.fixture
def recorded(tmp_path: Path, request: pytest.FixtureRequest) -> CaptureReader:
    """One of the captures in tests/data/silent, in a run folder without run.json."""
    path = tmp_path / EXPORT
    path.write_bytes(lzma.decompress((SILENT / f"{request.param}.sqlite.xz").read_bytes()))
    return open_capture(path)


def made(folder: Path, *rows: Row) -> CaptureReader:
    return open_capture(write(folder / EXPORT, *(rows or (nvtx("step", 0, 9),))))


def causes(capture: CaptureReader, run: dict[str, Any] | None = None) -> list[str]:
    return [str(worded(cause)) for cause in no_gpu_work(capture, run or {})]


def message(text: str, pid: int = 100, severity: int = 1) -> Row:
    return row(DIAGNOSTIC, timestamp=1, severity=severity, text=text, globalPid=global_id(pid))


@pytest.mark.parametrize(
    ("recorded", "run", "first"),
    [
        ("fork0", {}, "nsys recorded no CUDA call"),
        (
            "fork0",
            {"gpu_processes": [{"pid": 551, "name": "python3", "parent": 543, "forked": True}]},
            f"nsys does not record forks: process 551 (python3) used CUDA; {SPAWN}",
        ),
        (
            "fork1",
            {},
            (
                "nsys reports that CUDA events may be missing from processes 665, 666; "
                "call cudaProfilerStop at the end: os._exit and signals lose events"
            ),
        ),
        (
            "sub1",
            {},
            (
                "another profiler used CUPTI in process 1225, so nsys could not trace CUDA; "
                "turn off the other profiler or CUPTI library of the program"
            ),
        ),
        (
            "range1",
            {"nsys": {"capture_range": "cudaProfilerApi"}},
            (
                "the capture range cudaProfilerApi was open for 14.9 ms, and no launch was recorded in it; "
                "open the range before the GPU work and close it after a synchronization"
            ),
        ),
        (
            "range1",
            {"nsys": {"capture_range": "nvtx:steps 2-4@nsyswrap", "steps": "2-4"}},
            (
                "the range of steps 2-4 was open for 14.9 ms, and no launch was recorded in it; "
                "record other --steps, or end steps elsewhere with --step-at"
            ),
        ),
        (
            "range1",
            {},
            (
                "the capture range was open for 14.9 ms, and no launch was recorded in it; "
                "open the range before the GPU work and close it after a synchronization"
            ),
        ),
        (
            "client",
            {"gpu_processes": []},
            (
                "nsys recorded no CUDA call, and no process of the run was seen to use CUDA "
                "(checked twice a second)"
            ),
        ),
    ],
    indirect=["recorded"],
)
def test_what_is_said_of_a_recorded_capture(recorded: CaptureReader, run: dict[str, Any], first: str) -> None:
    assert causes(recorded, run)[0] == first


@pytest.mark.parametrize("recorded", ["fork0", "client"], indirect=True)
def test_without_evidence_everything_else_is_possible_at_most(recorded: CaptureReader) -> None:
    fact, *rest = causes(recorded)
    assert fact == "nsys recorded no CUDA call"
    assert rest[0].startswith("possibly the work was in workers that were forked")
    assert rest[1].startswith("possibly the work was in a process that nsys does not follow")


@pytest.mark.parametrize("recorded", ["client"], indirect=True)
def test_the_fact_is_followed_by_every_possible_cause(recorded: CaptureReader) -> None:
    server = {"pid": 7, "name": "s", "in_run": False}
    assert causes(recorded, {"conditions": {"gpus": [{"uuid": "", "processes": [server]}]}}) == [
        "nsys recorded no CUDA call",
        (
            "possibly the GPU work ran in process 7 (s), which is not part of the run; "
            "profile that process, for example the server or the Ray worker"
        ),
        (
            "possibly the work was in workers that were forked without an exec; "
            "use nsyswrap profile --follow-forks"
        ),
    ]


@pytest.mark.parametrize("recorded", ["fork0"], indirect=True)
def test_a_fork_is_possible_beside_a_range(recorded: CaptureReader) -> None:
    user = {"pid": 551, "name": "python3", "parent": 543, "forked": True}
    run = {"gpu_processes": [user], "nsys": {"capture_range": "cudaProfilerApi"}}
    fact, fork, window, *_ = causes(recorded, run)
    assert fact == "nsys recorded no CUDA call"
    assert fork.startswith("possibly the GPU work was in forks (nsys does not record forks: process 551 (p")
    assert window.startswith("possibly the GPU work lay outside the capture range cudaProfilerApi, which was")


@pytest.mark.parametrize("recorded", ["sub1"], indirect=True)
def test_a_process_with_another_profiler_needs_no_second_cause(recorded: CaptureReader) -> None:
    run = {"gpu_processes": [{"pid": 1225, "name": "sub", "parent": 1, "forked": False}]}
    assert not any("nsys has no CUDA events" in cause for cause in causes(recorded, run))


@pytest.mark.parametrize("recorded", ["fork0"], indirect=True)
def test_what_was_watched_is_not_guessed(recorded: CaptureReader) -> None:
    assert not any("forked" in cause for cause in causes(recorded, {"gpu_processes": []}))


@pytest.mark.parametrize("recorded", ["fork1", "range1", "sub1"], indirect=True)
def test_a_fact_leaves_no_room_for_guesses(recorded: CaptureReader) -> None:
    assert not any(cause.startswith("possibly") for cause in causes(recorded))


def test_a_forked_process_that_nsys_was_told_to_follow(tmp_path: Path) -> None:
    run = {"gpu_processes": [FORKED], "nsys": {"follow_forks": True}}
    assert causes(made(tmp_path), run)[0] == (
        "nsys has no CUDA events of process 101 (worker), which used CUDA; "
        "call cudaProfilerStop at the end of workers: os._exit loses events"
    )


def test_a_process_that_may_be_a_fork(tmp_path: Path) -> None:
    [cause] = map(worded, no_gpu_work(made(tmp_path), {"gpu_processes": [{**FORKED, "forked": None}]}))
    assert cause.text == "nsys has no CUDA events of process 101 (worker), which used CUDA"
    assert cause.cure == "if forked, use nsyswrap profile --follow-forks; else profile it alone"


def test_several_forked_processes_are_one_cause(tmp_path: Path) -> None:
    run = {"gpu_processes": [FORKED, {**FORKED, "pid": 103}]}
    [cause] = map(worded, no_gpu_work(made(tmp_path), run))
    assert cause.text == "nsys does not record forks: 2 processes such as 101 (worker) used CUDA"
    assert cause.count == 2


@pytest.mark.parametrize("window", [{"delay": 5.0}, {"duration": 2.5}, {"extra": ["--delay=5"]}])
def test_what_lies_outside_the_recorded_window_is_not_missed(tmp_path: Path, window: dict[str, Any]) -> None:
    run = {"gpu_processes": [FORKED, EXECUTED], "nsys": window}
    capture = with_run(tmp_path, run, nvtx("step", 0, 9))
    assert missing_processes(capture) == ()
    assert missing_processes(capture) is missing_processes(capture)  # for all parts of one screen
    found = [cause for cause in causes(capture, run) if "process 10" in cause]
    assert [cause.split(" (")[0] for cause in found] == ["possibly the GPU work was in forks"]


@pytest.mark.parametrize(
    ("rows", "run", "cause"),
    [
        (
            [row("ANALYSIS_DETAILS", duration=2_000_000_000, startTime=0)],
            {"nsys": {"delay": 5.0, "duration": 2.0}},
            (
                "possibly the GPU work lay outside the 2.00 s that --delay 5 --duration 2 recorded; "
                "change --delay and --duration"
            ),
        ),
        (
            [],
            {"env_set": ["CUDA_MPS_PIPE_DIRECTORY"]},
            "possibly the program was a client of MPS: CUDA_MPS_PIPE_DIRECTORY was set; record without MPS",
        ),
        (
            [row("TARGET_INFO_SYSTEM_ENV", name="SoftwareReleaseVersion", value="5.15.90-microsoft-WSL2")],
            {},
            (
                "possibly CUDA cannot be traced on this WSL (kernel 5.15.90-microsoft-WSL2); "
                "update WSL, the driver and nsys, or record on Linux"
            ),
        ),
        (
            [message("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", severity=3)],
            {},
            "nsys says: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES; run nsyswrap doctor",
        ),
        (
            [message("The driver version 999 is not supported by this build", severity=2)],
            {},
            "nsys says: The driver version 999 is not supported by this build; record with a newer nsys",
        ),
        (
            [message("Dropped events", severity=2)],
            {},
            "possibly CUDA events were lost, nsys says: Dropped events",
        ),
        (
            [message("Dropped CUDA events", severity=2)],
            {},
            "nsys reported missing CUDA events: Dropped CUDA events",
        ),
        (
            [message("Already subscribed: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", -1, severity=3)],
            {},
            (
                "another profiler used CUPTI, so nsys could not trace CUDA; "
                "turn off the other profiler or CUPTI library of the program"
            ),
        ),
    ],
    ids=["window", "MPS", "WSL", "permission", "driver", "dropped", "dropped CUDA", "other profiler"],
)
def test_evidence_in_the_capture_and_in_run_json(
    tmp_path: Path, rows: list[Row], run: dict[str, Any], cause: str
) -> None:
    found = causes(made(tmp_path, nvtx("step", 0, 9), *rows), run)
    assert found[cause.startswith("possibly")] == cause  # a fact comes first


@pytest.mark.parametrize(
    "text",
    [
        "CPU sampling: perf_event_open failed: Permission denied",
        "Not all OS runtime events might have been collected.",
    ],
)
def test_messages_about_other_events_are_no_cause(tmp_path: Path, text: str) -> None:
    found = causes(made(tmp_path, nvtx("step", 0, 9), message(text, severity=2)))
    assert found[0] == "nsys recorded no CUDA call"
    assert not any(text in cause for cause in found)


def test_launches_without_their_work_are_counted(tmp_path: Path) -> None:
    calls = [call("cudaLaunchKernel", 0, 5, 1), call("cudaFree", 5, 9, 2)]
    assert causes(made(tmp_path, *calls)) == ["nsys recorded 2 CUDA API calls, 1 of them a launch"]


@pytest.mark.parametrize(
    ("output", "last"),
    [
        ("Traceback:\n  File 'a.py'\nImportError: no  module\n\n", "ImportError: no module"),
        ("Accelerator Fatal Error: no device function\n", "Accelerator Fatal Error: no device function"),
        ("Error in step 3, trying again\nepoch 1: 100 %\n", None),
        (f"RuntimeError: {'x' * 100_000}\n", f"RuntimeError: {'x' * 185}…"),
        ("4 passed, 0 failed\n", None),
        ("finished with 0 errors\n", None),
        ("done, no fatal errors\n", None),
        ("", None),
    ],
)
def test_the_last_line_of_a_program_that_failed(tmp_path: Path, output: str, last: str | None) -> None:
    streams = [
        row("ProcessStreams", globalPid=1, filenameId=f"pid_1_{name}.log", contentId=text)
        for name, text in (("stderr", output), ("stdout", "an error\n"))
    ]
    missing = "Not all CUDA events might have been collected."
    found = causes(made(tmp_path, nvtx("step", 0, 9), message(missing, severity=3), *streams))
    said = f"the program ended with an error: {last}; run the program without nsys first"
    assert (found[0] == said) == (last is not None)
    assert f"nsys reported missing CUDA events: {missing}" in found


def test_the_exit_code_of_a_run_comes_before_guesses(tmp_path: Path) -> None:
    RunFolder(tmp_path).write_status(Status("program_failed", 1, None, 1, "exit code 1"))
    fact, *others = causes(with_run(tmp_path, {}, nvtx("step", 0, 9)))
    assert fact == "the program failed: exit code 1; run the program without nsys first"
    assert others == []


@pytest.mark.parametrize(
    ("run", "report", "why"),
    [
        ({}, "gpu_time", "none occurred, or they were not collected (collect with nsyswrap profile --trace"),
        ({"nsys": {"trace": "cuda,nvtx"}}, "gpu_time", "none were recorded: nsys recorded no CUDA call"),
        (
            {"nsys": {"trace": "cuda"}, "gpu_error": "no driver"},
            "gpu_time",
            "none were recorded: this machine has no usable GPU: no driver",
        ),
        ({"nsys": {"trace": "nvtx"}}, "gpu_time", "none occurred, or they were not collected (collect with"),
        ({"nsys": {"trace": "cuda,nvtx"}}, "nvtx_sum", "none were recorded, though --trace nvtx was on"),
        ({"nsys": {"trace": "cuda"}}, "nvtx_sum", "none occurred, or they were not collected (collect with"),
        ({"nsys": {"trace": "cuda,nvtx"}}, "osrt_sum", "none occurred, or they were not collected (collect"),
        ({"nsys": {"trace": "cuda,osrt"}}, "osrt_sum", "none were recorded, though --trace osrt was on"),
    ],
)
def test_what_was_traced_is_not_advised(tmp_path: Path, run: dict[str, Any], report: str, why: str) -> None:
    capture = with_run(tmp_path, run, call("cudaFree", 0, 9) if report == "nvtx_sum" else nvtx("step", 0, 9))
    with pytest.raises(NotInCapture) as caught:
        find_report(report).make(capture)
    assert caught.value.hint.startswith(why)


@pytest.mark.parametrize(("traced", "expected"), [("true", True), ("false", False)])
def test_a_capture_without_a_run_says_whether_cuda_was_traced(
    tmp_path: Path, traced: str, *, expected: bool
) -> None:
    capture = made(
        tmp_path,
        nvtx("step", 0, 9),
        row("META_DATA_CAPTURE", name="PROCESS_0:COLLECT_CUDA_TRACE", value=traced),
    )
    assert was_traced(capture, "cuda") == expected
    assert not was_traced(capture, "nvtx")
    [(*_, meaning)] = rows_on(capture, "API results")
    assert ("collect with" in str(meaning)) != expected


def launches(*results: int) -> list[Row]:
    return [
        call("cudaLaunchKernel", 10 * i, 10 * i + 5, i, returnValue=result)
        for i, result in enumerate(results)
    ]


BUILD = "build for this GPU, for example with nvcc -arch=native"


@pytest.mark.parametrize(
    ("calls", "fact"),
    [
        (launches(209, 209), f"all 2 launches failed: no kernel image for this GPU (209); {BUILD}"),
        (launches(98), f"the only launch failed: invalid device function (98); {BUILD}"),
        (launches(0, 209), "nsys recorded 2 CUDA API calls, 2 of them launches"),
        (
            [call("cudaGetDeviceCount", 0, 5, 1, returnValue=100)],
            "cudaGetDeviceCount failed: no device (100); run nsyswrap doctor",
        ),
        ([call("cudaMalloc", 0, 5, 1, returnValue=2)], "nsys recorded 1 CUDA API call, but no launch"),
    ],
)
def test_calls_that_failed_come_before_guesses(tmp_path: Path, calls: list[Row], fact: str) -> None:
    assert causes(made(tmp_path, *calls)) == [fact]


def test_launches_that_succeed_unseen(tmp_path: Path) -> None:
    fact, timestamps, virtual = causes(made(tmp_path, *launches(0, 0), message("Profiling has started.")))
    assert fact == "nsys recorded 2 CUDA API calls, 2 of them launches"
    assert "CuptiUseRawGpuTimestamps=false" in timestamps
    assert virtual.startswith("possibly CUDA cannot be traced here: WSL, or a virtual GPU")


@pytest.mark.parametrize(
    "nsys", [{"delay": "5"}, {"duration": []}, {"extra": 7}, {"follow_forks": "no"}, {"capture_range": 1}]
)
def test_an_export_without_diagnostics_and_damaged_facts(tmp_path: Path, nsys: dict[str, Any]) -> None:
    run = {"gpu_processes": "many", "conditions": 3, "env_set": 5, "nsys": nsys}
    capture = with_run(tmp_path, run, nvtx("step", 0, 9))
    fact, *others = causes(capture, capture.run_facts)
    assert fact == "nsys recorded no CUDA call"
    assert len(others) == 2
    assert others[0].startswith("possibly the work was in workers that were forked")


def with_run(folder: Path, run: dict[str, Any], *rows: Row) -> CaptureReader:
    (folder / RUN).write_text(json.dumps(run))
    write(folder / EXPORT, *rows)
    return open_capture(folder)


def test_workers_that_are_missing_beside_work_stand_in_the_trust_line(tmp_path: Path) -> None:
    work = (call("cudaLaunchKernel", 0, 5, 1), kernel("k", 6, 9, 1))
    capture = with_run(tmp_path, {"gpu_processes": [FORKED, {**FORKED, "pid": 100}]}, *work)
    lines = trust(capture).lines
    assert "  nsys does not record forks: process 101 (worker) used CUDA" in lines
    assert f"    {SPAWN}" in lines
    assert max(map(len, lines)) <= 80
    rows = capture.report("diagnostics").data
    assert rows["level"][0] == "warning"
    assert rows["subject"][0] == "processes"


def test_workers_that_are_missing_beside_copies_stand_in_the_trust_line(tmp_path: Path) -> None:
    capture = with_run(tmp_path, {"gpu_processes": [FORKED]}, memcpy(1, 0, 5, 8))
    assert "  nsys does not record forks: process 101 (worker) used CUDA" in trust(capture).lines


@pytest.mark.parametrize("forked", [True, False, None])
@pytest.mark.parametrize("follow_forks", [True, False])
def test_missing_workers_fit_the_screen(tmp_path: Path, *, forked: bool | None, follow_forks: bool) -> None:
    users = [{**FORKED, "forked": forked}, {**FORKED, "pid": 100}]
    run = {"gpu_processes": users, "nsys": {"follow_forks": follow_forks}}
    work = (call("cudaLaunchKernel", 0, 5, 1), kernel("k", 6, 9, 1))
    lines = trust(with_run(tmp_path, run, *work)).lines
    assert any("process 101 (worker)" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_run_without_cuda_in_its_trace_misses_no_process(tmp_path: Path) -> None:
    run = {"gpu_processes": [EXECUTED], "nsys": {"trace": "nvtx"}}
    assert missing_processes(with_run(tmp_path, run, nvtx("step", 0, 9))) == ()


@pytest.mark.parametrize("rows", [[], [call("cudaFree", 0, 5)]])
def test_without_gpu_work_the_trace_is_not_called_complete(tmp_path: Path, rows: list[Row]) -> None:
    capture = made(tmp_path, nvtx("step", 0, 9), message("started"), *rows)
    [line] = trust(capture).lines
    assert line.endswith("; no nsys warnings, no dropped events reported")


@pytest.mark.parametrize("run", [{}, {"gpu_processes": []}, {"gpu_processes": [{**FORKED, "pid": 100}]}])
def test_a_capture_with_all_processes_says_nothing(tmp_path: Path, run: dict[str, Any]) -> None:
    work = (call("cudaLaunchKernel", 0, 5, 1), kernel("k", 6, 9, 1))
    assert not any("process" in line for line in trust(with_run(tmp_path, run, *work)).lines)


def test_the_export_of_a_run_folder_knows_its_run(tmp_path: Path) -> None:
    with_run(tmp_path, {"gpu_processes": [FORKED]}, nvtx("step", 0, 9))
    answer, lines = answer_with_lines(open_capture(tmp_path / EXPORT))
    assert answer is not None
    assert str(lines[0]).startswith("No GPU work: nsys does not record forks: process 101 (worker)")
    assert answer_lines(open_capture(tmp_path), answer)[0] == lines[0]


def test_a_name_with_control_characters_does_not_reach_the_screen(tmp_path: Path) -> None:
    run = {"gpu_processes": [{**FORKED, "name": "\x1b[31mred"}]}
    _, lines = answer_with_lines(with_run(tmp_path, run, nvtx("step", 0, 9)))
    assert "\x1b" not in "".join(map(str, lines))


def test_a_pytorch_for_the_cpu_is_a_cause_if_nothing_used_cuda(tmp_path: Path) -> None:
    run = {"conditions": {"versions": {"torch": "2.9.0+cpu"}}}
    first = (
        "PyTorch 2.9.0+cpu of the program's Python is a CPU build, and no CUDA call was recorded; "
        "install a CUDA build: https://pytorch.org/get-started/locally"
    )
    capture = made(tmp_path)
    assert causes(capture, run)[0] == first
    no_gpu = causes(capture, {**run, "gpu_error": "NVIDIA driver not found"})
    assert no_gpu == [f"this machine has no usable GPU: NVIDIA driver not found; {NO_GPU_CURE}"]
    for other in ({}, {"conditions": {"versions": {"torch": "2.9.0+cu130"}}}):
        assert "CPU build" not in causes(capture, other)[0]
    assert first not in causes(capture, {**run, "gpu_processes": [FORKED]})
    (tmp_path / "other").mkdir()
    assert first not in causes(made(tmp_path / "other", call("cudaMalloc", 0, 5)), run)
