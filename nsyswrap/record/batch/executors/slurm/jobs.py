"""Which Slurm job is at which run of a batch, and how the runs stand by folders and queue."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nsyswrap.base.errors import Unavailable
from nsyswrap.base.run_folder import Status, existing
from nsyswrap.record.batch.executors.slurm import commands
from nsyswrap.record.batch.executors.slurm.commands import indexes
from nsyswrap.record.batch.folder import ENDED, SLURM, Batch, RunState, look

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nsyswrap.record.batch.folder import State

_JOBS = "jobs.json"
_CANCELLED = "cancelled"  # tells a batch that waits, on whatever machine, to submit no more
_LOST_CODE = 70
_LONGEST_LOG = 4096  # bytes, of its end
_MOST_ASKED = 50  # jobs whose end is asked for at a time


@dataclass(frozen=True)
class Array:
    """A job array that was submitted: task i is run number ``offset`` + i."""

    job: str
    offset: int
    tasks: str

    @property
    def numbers(self) -> list[int]:
        """The runs in it."""
        return [self.offset + task for task in indexes(self.tasks)]


def comment(batch: Batch, offset: int) -> str:
    """Return what a job of the batch carries: it is found by it, whatever became of its submitter."""
    return f"nsyswrap:{batch.id}:{offset}"


def submitted(batch: Batch) -> list[Array]:
    """Return every array that jobs.json tells of, the newest last."""
    try:
        rows = json.loads((batch.folder / SLURM / _JOBS).read_text(encoding="utf-8"))["jobs"]
        return [Array(row["job"], row["offset"], row["tasks"]) for row in rows]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def remember(batch: Batch, array: Array) -> None:
    """Write an array into jobs.json."""
    path = batch.folder / SLURM / _JOBS
    rows = json.loads(path.read_text(encoding="utf-8"))["jobs"] if submitted(batch) else []
    row = {"job": array.job, "offset": array.offset, "tasks": array.tasks, "submitted": round(time.time())}
    existing(batch.folder / SLURM).write(_JOBS, {"jobs": [*rows, row]})


def in_queue(batch: Batch) -> dict[int, commands.Job]:
    """Return the job in Slurm's queue that is, or will be, at a run: run number -> job.

    Those that wait together share one Job. Raises Unavailable where Slurm does not answer.
    """
    offsets = {array.job: array.offset for array in submitted(batch)}
    found: dict[int, commands.Job] = {}
    for job in commands.jobs():
        mark, _, offset = job.comment.rpartition(":")
        if f"{mark}:" == comment(batch, 0)[:-1] and offset.isdecimal():
            offsets[job.id] = int(offset)
        elif job.id not in offsets or job.comment.startswith("nsyswrap:"):
            continue
        found |= {offsets[job.id] + task: job for task in job.tasks}
    return {number: job for number, job in found.items() if number in batch.runs}


def states(batch: Batch, known: Mapping[int, RunState] | None = None) -> dict[int, RunState]:
    """Return the state of every run, by folders and queue; by the folders alone where Slurm does not tell."""
    return states_and_queue(batch, known)[0]


def states_and_queue(
    batch: Batch, known: Mapping[int, RunState] | None = None
) -> tuple[dict[int, RunState], dict[int, commands.Job]]:
    """Return the state of every run, and what ``in_queue`` does: no job where Slurm does not tell."""
    found = batch.survey(known)
    is_over = all(state.state == "done" for state in found.values())
    if is_over or not (batch.folder / SLURM).exists():
        return found, {}
    try:
        queued = in_queue(batch)
        return beside(batch, queued, found), queued
    except Unavailable:
        return found, {}


def beside(
    batch: Batch, queued: Mapping[int, commands.Job], known: Mapping[int, RunState] | None = None
) -> dict[int, RunState]:
    """Return the state of every run, by its folder and by whether a job is ``queued`` for it."""
    known = known or {}
    found = {
        number: known[number]
        if number in known and _stands(known[number], queued.get(number))
        else look(batch.run_folder(number), number)
        for number in batch.runs
    }
    for number, job in queued.items():
        found[number] = with_job(found[number], job)
    lost = {n: s for n, s in found.items() if s.state in ("lost", "planned") and n not in queued}
    return found | _explained(batch, lost, known)


def _stands(state: RunState, job: commands.Job | None) -> bool:
    """Whether a run that was in this state still is, without a look at its folder: there can be thousands."""
    return state.state in ENDED if job is None else state.state == "planned" and job.state == "PENDING"


def with_job(state: RunState, job: commands.Job) -> RunState:
    """Return the state of a run for which a job is in the queue."""
    ours = state.claim is not None and state.claim.job.startswith(f"{job.id}_")
    if state.state == "done" or (state.state in ENDED and ours and job.state != "PENDING"):
        return state
    now: State = "planned" if job.state == "PENDING" else "running"
    return replace(state, state=now, status=None, claim=state.claim if ours else None)


def _explained(
    batch: Batch, runs: Mapping[int, RunState], known: Mapping[int, RunState]
) -> dict[int, RunState]:
    """Say of each lost run what became of its job. A planned one whose job has begun is lost too."""
    jobs = {n: f"{array.job}_{n - array.offset}" for array in submitted(batch) for n in array.numbers}
    ended = {n: s.claim.job if s.claim else jobs.get(n, "") for n, s in runs.items() if not s.status}
    begun = {n: job for n, job in ended.items() if job and (runs[n].claim or _log(batch, job).exists())}
    told = {n: known[n] for n in begun if n in known and known[n].state == "lost" and known[n].status}
    new = {n: job for n, job in begun.items() if n not in told}
    why = commands.why_ended(list(new.values())[:_MOST_ASKED])
    return told | {n: _told(batch, runs[n], job, why.get(job, "")) for n, job in new.items()}


def _told(batch: Batch, state: RunState, job: str, why: str) -> RunState:
    log = _log(batch, job)
    said = _last_line(log)
    parts = [f"job {job} ended{f' ({why})' if why else ''}", f"its log says: {said}" if said else ""]
    status = Status("nsys_failed", None, None, _LOST_CODE, "; ".join(filter(None, parts)), f"see {log}")
    return replace(state, state="lost", status=status)


def _log(batch: Batch, job: str) -> Path:
    return batch.folder / SLURM / f"{job}.log"


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LONGEST_LOG))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def cancel(batch: Batch) -> int:
    """Take every job of the batch out of Slurm's queue, those that run too; return for how many runs.

    Raises Unavailable where Slurm does not answer.
    """
    if not (batch.folder / SLURM).exists():
        return 0
    (batch.folder / SLURM / _CANCELLED).touch()
    queued = in_queue(batch)
    commands.cancel(sorted({job.id for job in queued.values()}))
    return len(queued)


def is_cancelled(batch: Batch) -> bool:
    """Whether the batch was cancelled since ``forget_cancelling``."""
    return (batch.folder / SLURM / _CANCELLED).exists()


def forget_cancelling(batch: Batch) -> None:
    """Begin anew."""
    (batch.folder / SLURM / _CANCELLED).unlink(missing_ok=True)
