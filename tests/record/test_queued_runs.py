"""The state of a run of which Slurm has a job, and batches that were cancelled before."""

from pathlib import Path

import pytest
from batch_folders import batch_of, planned

from nsyswrap.base.run_folder import Status
from nsyswrap.record.batch.executors.slurm import jobs
from nsyswrap.record.batch.executors.slurm.commands import QueuedJob
from nsyswrap.record.batch.executors.slurm.jobs import with_job
from nsyswrap.record.batch.folder import Claim, RunState, State, open_batch

FAILED = Status("program_failed", 1, 1, 0)
OWN, FORMER = Claim("node", 100, 1.0, job="17_3"), Claim("node", 100, 1.0, job="9_3")
STOPPED = Claim("node", 100, 1.0, job="17_3", stopped="interrupted")


def queued(state: str) -> QueuedJob:
    return QueuedJob("17", (3,), state, "None", "")


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_what_is_done_stays_done(state: str) -> None:
    """Its claim is not read."""
    done = RunState(3, "003", "done", Status("done", 0, 0, 0))
    assert with_job(done, queued(state)) == done


def test_a_run_has_failed_while_slurm_still_ends_its_job() -> None:
    failed = RunState(3, "003", "program_failed", FAILED, OWN)
    assert with_job(failed, queued("COMPLETING")) == failed


@pytest.mark.parametrize(
    ("claim", "job", "state", "left"),
    [
        (OWN, "PENDING", "planned", OWN),  # Slurm starts the job again
        (STOPPED, "RUNNING", "running", STOPPED),  # it has started again
        (FORMER, "RUNNING", "running", None),
        (FORMER, "PENDING", "planned", None),
        (None, "RUNNING", "running", None),
    ],
)
def test_a_run_that_failed_before_has_a_job_again(
    claim: Claim | None, job: str, state: State, left: Claim | None
) -> None:
    failed = RunState(3, "003", "program_failed", FAILED, claim)
    assert with_job(failed, queued(job)) == RunState(3, "003", state, None, left)


@pytest.mark.parametrize(("job", "state"), [("PENDING", "planned"), ("RUNNING", "running")])
def test_a_run_that_has_not_ended(job: str, state: State) -> None:
    assert with_job(RunState(3, "003", "lost", None, OWN), queued(job)) == RunState(
        3, "003", state, None, OWN
    )
    assert with_job(RunState(3, "003", "planned"), queued(job)).claim is None


def test_a_batch_that_nobody_cancelled_is_not_cancelled(tmp_path: Path) -> None:
    planned(tmp_path, 1, {"x": 1})
    batch = open_batch(batch_of(tmp_path))
    jobs.forget_cancelling(batch)
    assert not jobs.is_cancelled(batch)
