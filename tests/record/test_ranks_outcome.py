"""The one outcome of a run of several ranks, by folders as ranks leave them."""

import os
import signal
import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_export
from tiny_export import call, kernel
from waiting import PATIENCE_S

from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.base.run_folder import EXPORT, PROGRAM_ERRORS, RunFolder, Status
from nsyswrap.record.attached import CommandEnd
from nsyswrap.record.batch import ranks_outcome
from nsyswrap.record.batch.ranks_outcome import judge, note_cause, note_time_limit
from nsyswrap.record.batch.task import TaskSpec

WELL = CommandEnd(0, None, timed_out=False)
FAILED = CommandEnd(143, None, timed_out=False)
DONE = Status("done", 0, 0, 0)
DIED = Status("program_failed", 7, 7, 7, "train ended with exit code 7")
STOPPED = Status("interrupted", None, 143, 143, "stopped by SIGTERM")
NO_REPORT = Status("nsys_failed", 0, 1, 70, "nsys wrote no complete export", "see nsys.log")
NVTX = tiny_export.nvtx("step", 0, 5)
KERNEL = kernel("k", 0, 5)
QUERY = call("cudaGetDeviceProperties_v12000", 0, 5)  # recorded also where kernels are lost


def spec(ntasks: int = 2, **changes: object) -> TaskSpec:
    fields = {"launcher": "srun", "ntasks": ntasks, "options": RecordingOptions(timeout_s=5.0)}
    return TaskSpec("x", {}, 1, "/", ("train",), **{**fields, **changes})  # type: ignore[arg-type]


def ended(folder: Path, number: int, status: Status | None, *rows: tiny_export.Row | None) -> None:
    """Make the folder of a rank, with a capture if there are rows; None: a capture without events."""
    rank = folder / f"rank-{number}"
    rank.mkdir()
    if rows:
        tiny_export.write(rank / EXPORT, *filter(None, rows))
        with sqlite3.connect(rank / EXPORT) as db:
            db.execute("CREATE TABLE IF NOT EXISTS StringIds (id, value)")
            db.execute("CREATE TABLE IF NOT EXISTS META_DATA_EXPORT (name, value)")
        db.close()
    if status:
        RunFolder(rank).write_status(status)
        os.utime(rank / "status.json", (100 - number, 100 - number))  # the last rank ended first


def outcome(folder: Path, run: TaskSpec, how: CommandEnd = WELL) -> tuple[str, int, str]:
    status = judge(run, folder, "srun", how)
    assert status.is_consistent
    return status.outcome, status.exit_code, status.message


def test_each_profiled_rank_has_a_capture(tmp_path: Path) -> None:
    ended(tmp_path, 0, DONE, NVTX)
    ended(tmp_path, 2, DONE, NVTX)
    assert outcome(tmp_path, spec(3, profiled_ranks=(0, 2))) == ("done", 0, "no GPU work was recorded")
    assert outcome(tmp_path, spec(3)) == ("nsys_failed", 70, "no complete capture of rank 1")


def test_the_status_of_a_rank_that_began_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        RunFolder(tmp_path / "rank-1").write_status(DONE)

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(ranks_outcome, "_GRACE_S", PATIENCE_S)
    ended(tmp_path, 0, DONE)
    ranks_outcome._await_files(spec(), tmp_path)  # noqa: SLF001 - rank 1 never began
    assert not slept
    ended(tmp_path, 1, None)
    ranks_outcome._await_files(spec(), tmp_path)  # noqa: SLF001
    assert len(slept) == 1


def test_the_rank_that_died_first_is_named(tmp_path: Path) -> None:
    ended(tmp_path, 0, STOPPED, NVTX)
    ended(tmp_path, 1, DIED, NVTX)
    ended(tmp_path, 2, DIED)
    words = "rank 2: train ended with exit code 7; rank 1 failed too; no complete capture of rank 2"
    assert outcome(tmp_path, spec(3), FAILED) == ("program_failed", 7, words)


def test_a_full_disk_keeps_the_exit_code_of_the_program_that_failed(tmp_path: Path) -> None:
    full = Status("disk_full", 0, 0, 73, "nsys wrote no complete export: the disk is full")
    ended(tmp_path, 0, replace(full, program_code=3))
    ended(tmp_path, 1, full)
    status = judge(spec(), tmp_path, "srun", FAILED)
    assert (status.outcome, status.program_code, status.exit_code) == ("disk_full", 3, 73)
    words = "rank 1: nsys wrote no complete export: the disk is full; rank 0 failed too; no complete capture"
    assert status.message == f"{words} of ranks 0, 1"


def test_a_rank_without_nsys_died(tmp_path: Path) -> None:
    ended(tmp_path, 0, STOPPED, NVTX)
    (tmp_path / PROGRAM_ERRORS).write_text(
        "srun: error: n1: task 1: Exited with exit code 7\n"
        "srun: error: n1: task 0: Exited with exit code 143\n"
    )
    words = "srun ended with exit code 143: srun: error: n1: task 1: Exited with exit code 7"
    assert outcome(tmp_path, spec(profiled_ranks=(0,)), FAILED) == ("program_failed", 7, words)


@pytest.mark.parametrize(
    ("status", "how", "expected"),
    [
        (
            NO_REPORT,
            FAILED,
            ("nsys_failed", 70, "rank 1: nsys wrote no complete export; no complete capture"),
        ),
        (None, FAILED, ("nsys_failed", 70, "rank 1 ended without a status; srun ended with exit code 143")),
        (None, WELL, ("nsys_failed", 70, "no complete capture of rank 1")),
        (
            STOPPED,
            CommandEnd(143, None, timed_out=True),
            ("timed_out", 75, "stopped after 5 s; no complete capture"),
        ),
        (
            STOPPED,
            CommandEnd(143, signal.SIGTERM, timed_out=False),
            ("interrupted", 143, "stopped by SIGTERM; no complete capture of rank 1"),
        ),
    ],
)
def test_a_rank_without_a_capture(
    tmp_path: Path, status: Status | None, how: CommandEnd, expected: tuple[str, int, str]
) -> None:
    ended(tmp_path, 0, DONE, NVTX)
    ended(tmp_path, 1, status)
    result, code, message = outcome(tmp_path, spec(), how)
    assert (result, code) == expected[:2]
    assert message.startswith(expected[2])


@pytest.mark.parametrize(
    ("line", "status", "how", "expected"),
    [
        (
            "slurmstepd-n2: error: StepId=2.0 exceeded memory limit (881770496 > 419430400), being killed",
            None,
            WELL,  # srun gives up and ends with 0
            ("nsys_failed", 70, "no complete capture of rank 1"),
        ),
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=2.0.",
            replace(DIED, program_code=137, exit_code=137, message="train ended with exit code 137"),
            FAILED,
            ("program_failed", 137, "rank 1: train ended with exit code 137; no complete capture of rank 1"),
        ),
    ],
)
def test_a_rank_that_lacked_memory(
    tmp_path: Path, line: str, status: Status | None, how: CommandEnd, expected: tuple[str, int, str]
) -> None:
    ended(tmp_path, 0, STOPPED, NVTX)
    ended(tmp_path, 1, status)
    (tmp_path / PROGRAM_ERRORS).write_text(f"step 1\n{line}\nsrun: Job step aborted\n")
    result, code, message = expected
    assert outcome(tmp_path, spec(), how) == (result, code, f"{message}; out of memory: {line}")
    assert judge(spec(), tmp_path, "srun", how).hint == "request more with mem in [slurm]"


def test_ranks_that_a_time_limit_stopped_say_so(tmp_path: Path) -> None:
    ended(tmp_path, 0, replace(STOPPED, message="stopped by SIGTERM; no report: the export is missing"))
    ended(tmp_path, 1, DIED)
    run = judge(spec(), tmp_path, "srun", CommandEnd(143, None, timed_out=True))
    note_time_limit(tmp_path, run)
    first = RunFolder(tmp_path / "rank-0").read_status()
    words = "stopped after 5 s; no report: the export is missing"
    assert (first.outcome, first.exit_code, first.message) == ("timed_out", 75, words)
    assert RunFolder(tmp_path / "rank-1").read_status() == DIED


def test_ranks_that_were_stopped_name_the_one_that_failed(tmp_path: Path) -> None:
    """It was not profiled, and has no status of its own."""
    ended(tmp_path, 0, replace(STOPPED, message="stopped by SIGTERM"), NVTX)
    (tmp_path / PROGRAM_ERRORS).write_text("srun: error: n1: task 1: Exited with exit code 5\n")
    run = judge(spec(profiled_ranks=(0,)), tmp_path, "srun", CommandEnd(5, None, timed_out=False))
    note_cause(tmp_path, run)
    assert run.outcome == "program_failed"
    assert RunFolder(tmp_path / "rank-0").read_status().message == f"stopped by SIGTERM; {run.message}"
    assert "task 1: Exited with exit code 5" in run.message


def test_a_capture_is_empty_where_it_should_not_be(tmp_path: Path) -> None:
    ended(tmp_path, 0, DONE, KERNEL)
    ended(tmp_path, 1, DONE, NVTX)
    ended(tmp_path, 2, DONE, QUERY)
    words = "the capture of ranks 1, 2 has no GPU work, those of other ranks have"
    assert outcome(tmp_path, spec(3)) == ("nsys_failed", 70, words)
    ended(tmp_path, 3, DONE, None)
    words = "the capture of rank 3 has no event, those of other ranks have"
    assert outcome(tmp_path, spec(4)) == ("nsys_failed", 70, words)


def test_captures_that_are_all_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for rank in range(2):
        ended(tmp_path, rank, DONE, None)
    assert outcome(tmp_path, spec())[0] == "done"  # nothing says that it used GPUs
    words = "no capture has any event, though the run had GPUs"
    for run in (spec(gpus=2), spec(settings={"slurm": {"gres": "gpu:2"}})):
        assert outcome(tmp_path, run) == ("nsys_failed", 70, words)
    assert outcome(tmp_path, spec(gpus=2, options=RecordingOptions(trace="nvtx")))[0] == "done"
    ended(tmp_path, 2, DONE, QUERY)
    words = "no capture has any GPU work, though the run had GPUs"
    assert outcome(tmp_path, spec(3, gpus=2)) == ("nsys_failed", 70, words)


def test_a_command_with_its_own_nsys(tmp_path: Path) -> None:
    own = spec(1, launcher="", profiled=False)
    words = "the command left no capture in the run folder"
    assert outcome(tmp_path, own) == ("nsys_failed", 70, words)
    (tmp_path / PROGRAM_ERRORS).write_text("Traceback\nValueError: no\n\n")
    assert outcome(tmp_path, own, CommandEnd(1, None, timed_out=False)) == (
        "program_failed",
        1,
        f"srun ended with exit code 1: ValueError: no; {words}",
    )
    (tmp_path / "mine.sqlite").write_text("no capture")
    result, code, message = outcome(tmp_path, own)
    assert (result, code) == ("nsys_failed", 70)
    assert message.startswith(
        "the command left mine.sqlite: only report.sqlite, report.nsys-rep and captures"
    )
    (tmp_path / "mine.sqlite").rename(tmp_path / EXPORT)
    result, code, message = outcome(tmp_path, own)
    assert (result, code) == ("nsys_failed", 70)
    assert message.startswith("report.sqlite: SQLite cannot read the export: ")
    (tmp_path / EXPORT).unlink()
    (tmp_path / "job.rank1.nsys-rep").touch()
    assert outcome(tmp_path, own) == ("done", 0, "")
    words = "no complete capture of rank 0"
    assert outcome(tmp_path, spec(profiled=False, profiled_ranks=(0, 1))) == ("nsys_failed", 70, words)
