"""Which Slurm job runs which run of a batch, and the states of the runs by their folders and the queue."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError, Unreadable
from nsyswrap.base.files import read_json, tail, typed
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import BATCH, RUNS, Status, existing
from nsyswrap.base.text import counted
from nsyswrap.record.batch.executors.slurm import commands
from nsyswrap.record.batch.executors.slurm.script import FOLDER
from nsyswrap.record.batch.folder import ENDED, Batch, RunState, State, read_state
from nsyswrap.record.batch.launchers import MORE_MEMORY, lacked_memory

_JOBS = "jobs.json"
_CANCELLED = "cancelled"  # a file: a `batch run` on any machine that sees it submits no more
_LOST_CODE = 70
_NOT_QUEUED = "no run of the batch is in Slurm's queue;"
_LOG_END_BYTES = 4096
_OUT_OF_MEMORY = "OUT_OF_MEMORY"  # Slurm knows this state with cgroups only; else its log says it
_MOST_TASKS = 1_000_000  # of an array
_MOST_ASKED = 50  # jobs whose end is asked for at a time


@dataclass(frozen=True)
class Array:
    """A job array: task i is run number ``offset`` + i. ``job`` is empty until the array is submitted.

    ``script`` is the name of its job script, and ``dependency`` that of the plan.
    """

    job: str
    offset: int
    tasks: str
    script: str = ""
    dependency: str = ""

    @property
    def numbers(self) -> list[int]:
        """The numbers of its runs."""
        return [self.offset + task for task in commands.indexes(self.tasks)]

    def __post_init__(self) -> None:
        """Raise ValueError for more tasks than a batch has runs."""
        if sum(map(len, commands.spans(self.tasks))) > _MOST_TASKS:
            raise ValueError(f"too many tasks: {self.tasks}")


@dataclass(frozen=True)
class Jobs:
    """The content of jobs.json: every array of the batch, the newest last, and those ``left`` to submit.

    ``folder`` is the batch folder that the jobs know. At most ``max_running`` runs run at a time (None: no
    limit). ``collect`` is the job that collects, or empty. ``stop_after_empty`` is that of the plan.
    """

    jobs: tuple[Array, ...] = ()
    left: tuple[Array, ...] = ()
    folder: str = ""
    max_running: int | None = None
    collect: str = ""
    stop_after_empty: int | None = None


def mark_of(batch: Batch, offset: int) -> str:
    """Return the mark of a job of this batch. It finds the job even if jobs.json was never written."""
    return f"nsyswrap:{batch.id}:{offset}"


def read_jobs(batch: Batch) -> Jobs:
    """Read jobs.json. It is empty if the file is missing or damaged."""
    try:
        return typed(Jobs, read_json(batch.folder / FOLDER / _JOBS))
    except (OSError, ValueError):
        return Jobs()


def submitted(batch: Batch) -> list[Array]:
    """Return every array in jobs.json, the newest last."""
    return list(read_jobs(batch).jobs)


def write_jobs(batch: Batch, jobs: Jobs) -> None:
    """Write jobs.json."""
    existing(batch.folder / FOLDER).write(_JOBS, asdict(jobs))


def working_elsewhere(batch: Batch) -> str:
    """Return the folder that the jobs of this batch know, if it is another: this one was moved or copied."""
    known = read_jobs(batch).folder
    if not known:
        return ""
    try:
        own, other = paths.status(batch.folder), paths.status(known)
    except Unreadable:
        return known
    return "" if own and other and os.path.samestat(own, other) else known


def in_queue(batch: Batch) -> dict[int, commands.QueuedJob]:
    """Return the job in Slurm's queue for each run that has one: run number -> job.

    Tasks that wait together share one Job. Raises Unavailable if Slurm does not answer.
    """
    offsets = {array.job: array.offset for array in submitted(batch)}
    queued: dict[int, commands.QueuedJob] = {}
    place = paths.status(batch.folder / FOLDER)
    for job in commands.jobs(place.st_uid if place else os.getuid()):
        mark, _, offset = job.mark.rpartition(":")
        if f"{mark}:" == mark_of(batch, 0)[:-1] and offset.isdecimal():
            offsets[job.id] = int(offset)
        elif job.id not in offsets or job.mark:
            continue
        queued |= {offsets[job.id] + task: job for task in job.tasks}
    return {number: job for number, job in queued.items() if number in batch.runs}


def remarks(batch: Batch, queued: Mapping[int, commands.QueuedJob]) -> list[str]:
    """Return lines on the jobs of a batch: what they wait for, and what is left to do."""
    lines = []
    if queued:
        waiting = commands.in_words(set(queued.values()))
        ids = commands.job_list(job.id for job in queued.values())
        lines.append(f"in Slurm's queue as {ids}" + (f": {waiting}" if waiting else ""))
    known = read_jobs(batch)
    if left := {number for part in known.left for number in part.numbers} - set(queued):
        lines.append(f"no job yet for {counted(len(left), 'runs')}; `nsyswrap batch wait` submits the rest")
    if other := working_elsewhere(batch):
        if queued:
            lines.append(f"this folder was moved or copied: its jobs work in {other}, and fail if it is gone")
        elif _has_runs_alone(other):
            copy = shlex.join(["cp", "-r", f"{other}/.", str(batch.folder)])
            lines.append(f"this folder was moved: its jobs wrote into {other}; `{copy}` brings their runs")
    return lines


def _has_runs_alone(folder: str) -> bool:
    try:
        return paths.exists(f"{folder}/{RUNS}") and not paths.exists(f"{folder}/{BATCH}")
    except Unreadable:
        return False


def states(
    batch: Batch, queued: Mapping[int, commands.QueuedJob], known: Mapping[int, RunState]
) -> dict[int, RunState]:
    """Return the state of every run, by its folder and by the job ``queued`` for it.

    ``known``: states by an earlier look at folders or queue. Folders are only read again if the state can
    have changed.
    """
    now = {
        number: known[number]
        if number in known and _is_unchanged(known[number], queued.get(number))
        else read_state(batch.run_folder(number), number)
        for number in batch.runs
    }
    for number, job in queued.items():
        now[number] = with_job(now[number], job)
    jobless = {n: s for n, s in now.items() if s.state in ("lost", "planned") and n not in queued}
    return now | _lost(batch, jobless, known)


def _is_unchanged(state: RunState, job: commands.QueuedJob | None) -> bool:
    return state.state in ENDED if job is None else state.state == "planned" and job.state == "PENDING"


def with_job(state: RunState, job: commands.QueuedJob) -> RunState:
    """Return the state of a run for which a job is in the queue."""
    is_its_job = state.claim is not None and state.claim.job.startswith(f"{job.id}_")
    has_ended = state.state in ENDED and is_its_job and job.state != "PENDING"
    if state.state == "done" or (has_ended and not (state.claim and state.claim.stopped)):
        return state
    now: State = "planned" if job.state == "PENDING" else "running"
    return replace(state, state=now, status=None, claim=state.claim if is_its_job else None)


def _lost(
    batch: Batch, jobless: Mapping[int, RunState], known: Mapping[int, RunState]
) -> dict[int, RunState]:
    """Return those of the ``jobless`` runs whose job has begun and ended, with why it ended."""
    submitted_jobs = {
        n: f"{array.job}_{n - array.offset}" for array in submitted(batch) for n in array.numbers
    }
    jobs = {
        n: s.claim.job if s.claim else submitted_jobs.get(n, "") for n, s in jobless.items() if not s.status
    }
    begun = {
        n: job for n, job in jobs.items() if job and (jobless[n].claim or paths.exists(_log(batch, job)))
    }
    told = ("lost", "nsys_failed")
    before = {n: known[n] for n in begun if n in known and known[n].state in told and known[n].status}
    new = {n: job for n, job in begun.items() if n not in before}
    reasons = commands.why_ended(list(new.values())[:_MOST_ASKED])
    return before | {n: _with_reason(batch, jobless[n], job, reasons.get(job, "")) for n, job in new.items()}


def _with_reason(batch: Batch, state: RunState, job: str, reason: str) -> RunState:
    log = _log(batch, job)
    lines = _last_lines(log)
    told = lacked_memory(lines)
    is_memory = reason.startswith(_OUT_OF_MEMORY) or bool(told)
    ended = "ran out of memory" if is_memory else "ended"
    parts = [
        f"job {job} {ended}{f' ({reason})' if reason else ''}",
        f"end of its log: {told or _conclusion(lines)}" if lines else "",
        MORE_MEMORY if is_memory else "",
    ]
    status = Status("nsys_failed", None, None, _LOST_CODE, "; ".join(filter(None, parts)), f"see {log}")
    # With as much memory it would fail again: only --retry-failed repeats it.
    return replace(state, state="nsys_failed" if is_memory else "lost", status=status)


def preempted(runs: Mapping[int, RunState]) -> dict[int, RunState]:
    """Return the interrupted runs whose job Slurm preempted, with a message that says so."""
    jobs = {n: s.claim.job for n, s in runs.items() if s.state == "interrupted" and s.claim and s.claim.job}
    reasons = commands.why_ended(list(jobs.values())[:_MOST_ASKED])
    return {
        n: replace(runs[n], status=replace(status, message=f"preempted by Slurm; {status.message}"))
        for n, job in jobs.items()
        if reasons.get(job, "").startswith("PREEMPTED")
        and (status := runs[n].status)
        and not status.message.startswith("preempted")
    }


def _conclusion(lines: Sequence[str]) -> str:
    """Return the last line of a log. A line of our advice is indented, below the message."""
    return next((line for line in reversed(lines) if not line.startswith("  ")), lines[-1]).strip()


def _log(batch: Batch, job: str) -> Path:
    return batch.folder / FOLDER / f"{job}.log"


def _last_lines(log: Path) -> list[str]:
    try:
        return tail(log, _LOG_END_BYTES).decode(errors="replace").strip().splitlines()
    except OSError:
        return []


def cancel(batch: Batch) -> int:
    """Remove every job of the batch from Slurm's queue, running ones too. Return the number of their runs.

    Raises Unavailable if Slurm does not answer or refuses, and OutputError, after that, for a folder that
    cannot be written.
    """
    unmarked: OutputError | None = None
    try:
        existing(batch.folder / FOLDER).write(_CANCELLED, "")
    except OutputError as error:  # a full disk, or the folder of a colleague: the jobs end all the same
        unmarked = error
    queued = in_queue(batch)
    collecting = read_jobs(batch).collect
    commands.cancel(sorted({*(job.id for job in queued.values()), *([collecting] if collecting else [])}))
    if unmarked:
        done = f"the jobs of {counted(len(queued), 'runs')} were cancelled, but" if queued else _NOT_QUEUED
        raise OutputError(
            f"{done} {unmarked.message}",
            "end the `batch run` or `batch wait` of this batch, if there is one: it would submit more",
        )
    return len(queued)


def is_cancelled(batch: Batch) -> bool:
    """Return True if the batch was cancelled since ``forget_cancelling``."""
    return paths.exists(batch.folder / FOLDER / _CANCELLED)


def forget_cancelling(batch: Batch) -> None:
    """Let the batch submit jobs again."""
    (batch.folder / FOLDER / _CANCELLED).unlink(missing_ok=True)
