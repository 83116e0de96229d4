"""Why a capture holds no GPU work: recorded captures of programs that use the GPU unseen, and made ones.

What is said must follow from the evidence. A cause without it begins with "possibly".
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from tiny_export import DIAGNOSTIC, Row, call, global_id, kernel, nvtx, row, write

from nsyswrap.analysis.diagnostics.summary_line import trust
from nsyswrap.analysis.no_gpu_work import no_gpu_work
from nsyswrap.api import Capture, open_capture
from nsyswrap.base.run_folder import EXPORT, RUN
from nsyswrap.reports.answer import answer_lines
from nsyswrap.reports.summary import answer_with_lines

SILENT = Path(__file__).resolve().parents[1] / "data" / "silent"
FORKED = {"pid": 101, "name": "worker", "parent": 100, "forked": True}
EXECUTED = {"pid": 102, "name": "server", "parent": 100, "forked": False}
SPAWN = "start workers with spawn, or use nsyswrap profile --follow-forks"


@pytest.fixture
def recorded(tmp_path: Path, request: pytest.FixtureRequest) -> Capture:
    """One of the captures in tests/data/silent, in a run folder without run.json."""
    path = tmp_path / EXPORT
    path.write_bytes(lzma.decompress((SILENT / f"{request.param}.sqlite.xz").read_bytes()))
    return open_capture(path)


def made(folder: Path, *rows: Row) -> Capture:
    return open_capture(write(folder / EXPORT, *(rows or (nvtx("step", 0, 9),))))


def causes(capture: Capture, run: dict[str, Any] | None = None) -> list[str]:
    return list(map(str, no_gpu_work(capture, run or {})))


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
                "nsys did not get all CUDA events of processes 665, 666; "
                "possibly os._exit or a signal ended it; return normally, or call cudaProfilerStop before"
            ),
        ),
        (
            "sub1",
            {},
            (
                "another profiler used CUPTI in process 1225, so nsys could not trace CUDA; "
                "turn it off; possibly torch.profiler, DCGM or a profiler of the program"
            ),
        ),
        (
            "range1",
            {"nsys": {"capture_range": "cudaProfilerApi"}},
            (
                "the capture range cudaProfilerApi was open for 14.9 ms, and 0 launches fell into it; "
                "open the range before the GPU work and close it after a synchronization"
            ),
        ),
        (
            "range1",
            {},
            (
                "the capture range was open for 14.9 ms, and 0 launches fell into it; "
                "open the range before the GPU work and close it after a synchronization"
            ),
        ),
        (
            "client",
            {"conditions": {"gpus": [{"uuid": "", "processes": [{"pid": 7, "name": "s", "in_run": False}]}]}},
            (
                "possibly the GPU work ran in process 7 (s), which is not part of the run; "
                "profile that process, for example the server or the Ray worker"
            ),
        ),
    ],
    indirect=["recorded"],
)
def test_what_is_said_of_a_recorded_capture(recorded: Capture, run: dict[str, Any], first: str) -> None:
    assert causes(recorded, run)[0] == first


@pytest.mark.parametrize("recorded", ["fork0", "client"], indirect=True)
def test_without_evidence_everything_else_is_possible_at_most(recorded: Capture) -> None:
    fact, *rest = causes(recorded)
    assert fact == "nsys recorded no CUDA call"
    assert rest[0].startswith("possibly the work was in workers that were forked")
    assert rest[1].startswith("possibly the work was in a process that nsys does not follow")


@pytest.mark.parametrize("recorded", ["fork0"], indirect=True)
def test_what_was_watched_is_not_guessed(recorded: Capture) -> None:
    assert not any("forked" in cause for cause in causes(recorded, {"gpu_processes": []}))


@pytest.mark.parametrize("recorded", ["fork1", "range1", "sub1"], indirect=True)
def test_a_fact_leaves_no_room_for_guesses(recorded: Capture) -> None:
    assert not any(cause.startswith("possibly") for cause in causes(recorded))


def test_a_forked_process_that_nsys_was_told_to_follow(tmp_path: Path) -> None:
    run = {"gpu_processes": [FORKED], "nsys": {"follow_forks": True}}
    assert causes(made(tmp_path), run)[0] == (
        "nsys has no CUDA events of process 101 (worker), which used CUDA; "
        "start workers with the environment of the program, or profile them by themselves"
    )


def test_several_forked_processes_are_one_cause(tmp_path: Path) -> None:
    run = {"gpu_processes": [FORKED, {**FORKED, "pid": 103}]}
    [cause] = no_gpu_work(made(tmp_path), run)
    assert cause.text == "nsys does not record forks: 2 processes such as 101 (worker) used CUDA"
    assert cause.count == 2


@pytest.mark.parametrize("window", [{"delay": 5.0}, {"duration": 2.5}, {"extra": ["--delay=5"]}])
def test_what_lies_outside_the_recorded_window_is_not_missed(tmp_path: Path, window: dict[str, Any]) -> None:
    run = {"gpu_processes": [FORKED, EXECUTED], "nsys": window}
    assert not any("process 10" in cause for cause in causes(made(tmp_path), run))


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
            "nsys says: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES; see nsyswrap doctor",
        ),
        (
            [message("The driver version 999 is not supported by this build", severity=2)],
            {},
            "nsys says: The driver version 999 is not supported by this build; record with a newer nsys",
        ),
        (
            [message("Dropped events", severity=2)],
            {},
            "nsys reported missing events: Dropped events",
        ),
    ],
    ids=["window", "MPS", "WSL", "permission", "driver", "dropped"],
)
def test_evidence_in_the_capture_and_in_run_json(
    tmp_path: Path, rows: list[Row], run: dict[str, Any], cause: str
) -> None:
    assert causes(made(tmp_path, nvtx("step", 0, 9), *rows), run)[0] == cause


def test_launches_without_their_work_are_counted(tmp_path: Path) -> None:
    calls = [call("cudaLaunchKernel", 0, 5, 1), call("cudaFree", 5, 9, 2)]
    assert causes(made(tmp_path, *calls)) == ["nsys recorded 2 CUDA API calls, 1 of them launches"]


def test_an_export_without_diagnostics_and_damaged_facts(tmp_path: Path) -> None:
    run = {"gpu_processes": "many", "conditions": 3, "nsys": {}, "env_set": []}
    assert causes(made(tmp_path), run)[0] == "nsys recorded no CUDA call"


def with_run(folder: Path, run: dict[str, Any], *rows: Row) -> Capture:
    (folder / RUN).write_text(json.dumps(run))
    write(folder / EXPORT, *rows)
    return open_capture(folder)


def test_workers_that_are_missing_beside_work_stand_in_the_trust_line(tmp_path: Path) -> None:
    work = (call("cudaLaunchKernel", 0, 5, 1), kernel("k", 6, 9, 1))
    capture = with_run(tmp_path, {"gpu_processes": [FORKED, {**FORKED, "pid": 100}]}, *work)
    lines = trust(capture)
    assert "  nsys does not record forks: process 101 (worker) used CUDA" in lines
    assert f"    {SPAWN}" in lines
    assert max(map(len, lines)) <= 80
    rows = capture.report("diagnostics").data
    assert rows["level"][0] == "warning"
    assert rows["subject"][0] == "processes"


@pytest.mark.parametrize("run", [{}, {"gpu_processes": []}, {"gpu_processes": [{**FORKED, "pid": 100}]}])
def test_a_capture_with_all_processes_says_nothing(tmp_path: Path, run: dict[str, Any]) -> None:
    work = (call("cudaLaunchKernel", 0, 5, 1), kernel("k", 6, 9, 1))
    assert not any("process" in line for line in trust(with_run(tmp_path, run, *work)))


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
