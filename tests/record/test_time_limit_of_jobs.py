"""A signal in a scheduler's job: for its time limit, or for a cancellation."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nsyswrap.base.run_folder import CLAIM, RunFolder, Status
from nsyswrap.record.batch.executors import SchedulerJob
from nsyswrap.record.batch.folder import Claim
from nsyswrap.record.batch.run_task import _run_in_job

DONE = Status("done", 0, 0, 0, "")
INTERRUPTED = Status("interrupted", None, 143, 143, "")


def fail() -> bool:
    raise OSError


@pytest.mark.parametrize(
    ("status", "at_limit", "outcome", "noted"),
    [
        (INTERRUPTED, lambda: True, "timed_out", "timed_out"),
        (INTERRUPTED, lambda: False, "interrupted", "interrupted"),
        (INTERRUPTED, fail, "interrupted", "interrupted"),  # the scheduler does not answer
        (INTERRUPTED, None, "interrupted", ""),  # Ctrl-C
        (DONE, lambda: True, "done", "timed_out"),  # its end came first
        (DONE, None, "done", ""),
    ],
)
def test_only_a_run_that_the_signal_ended_has_timed_out(
    tmp_path: Path, status: Status, at_limit: Callable[[], bool] | None, outcome: str, noted: str
) -> None:
    """Without a signal the scheduler is not asked."""
    run = RunFolder(tmp_path / "run")
    run.make()
    run.write_status(status)
    claim = Claim("host", 1, 1.0)

    def execute(on_signal: Callable[[], None]) -> Status:
        if at_limit:
            on_signal()
        return status

    job = SchedulerJob("Slurm", "17", "host", 0, at_limit or fail)
    ended = _run_in_job(run.path, execute, job, claim)
    assert ended.outcome == run.read_status().outcome == outcome
    if noted:
        assert json.loads((run.path / CLAIM).read_text()) == vars(replace(claim, stopped=noted))  # type: ignore[arg-type]
    else:
        assert not (run.path / CLAIM).exists()
