"""Waiting for the job that reads captures. The queue stands for squeue, which seldom fails when asked to."""

from pathlib import Path
from typing import Any

import pytest

from nsyswrap.base.errors import Unavailable
from nsyswrap.record.batch.executors import Blocks
from nsyswrap.record.batch.executors.slurm import commands, digest_jobs
from nsyswrap.record.batch.folder import Pause

SLURM = "nsyswrap.record.batch.executors.slurm"


def job(state: str) -> commands.QueuedJob:
    return commands.QueuedJob("17", (), state, "None", "")


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What squeue says, call by call; the last stays. The folder's job is 17."""
    answers: list[Any] = []

    def jobs() -> list[commands.QueuedJob]:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return [job(state) for state in answer]

    (tmp_path / "job").write_text("17")
    monkeypatch.setattr(f"{SLURM}.commands.jobs", jobs)
    monkeypatch.setattr(Pause, "seconds", lambda _pause: 0)
    monkeypatch.setattr(f"{SLURM}.digest_jobs._submit", lambda _blocks: "18")
    return answers


def run(folder: Path) -> tuple[str, list[str]]:
    said: list[str] = []
    return digest_jobs.run(Blocks(folder, (), 1, None, {}), said.append), said


def test_a_job_goes_on_where_slurm_does_not_answer_once(queue: list[Any], tmp_path: Path) -> None:
    queue += [["RUNNING"], ["RUNNING"], Unavailable("squeue did not answer"), ["RUNNING"], []]
    name, said = run(tmp_path)
    assert name == ""  # an earlier job: nothing was submitted
    assert "job 17: squeue did not answer; waiting for Slurm" in said


def test_a_job_that_only_clears_up_is_not_waited_for(queue: list[Any], tmp_path: Path) -> None:
    queue += [["COMPLETING"]]
    assert run(tmp_path)[0] == "job 18"
