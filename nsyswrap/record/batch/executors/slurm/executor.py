"""Run a batch on a Slurm cluster: one job array, or several if the cluster limits their size.

The jobs do not need this process. Their states lie in the run folders, and the same command started again
finds the jobs in the queue.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nsyswrap.base import paths
from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.run_folder import BATCH, make_folder, share_of
from nsyswrap.record.batch.executors import EMPTY_ADVICE
from nsyswrap.record.batch.executors.slurm import commands, jobs, submission
from nsyswrap.record.batch.executors.slurm.script import FOLDER
from nsyswrap.record.batch.folder import ENDED, Pause, RunState, without_gpu_work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

    from nsyswrap.record.batch.executors import BatchRequest, OnProgress
    from nsyswrap.record.batch.folder import Batch

_FIRST_POLL_S = 1.0
_GRACE_S = 3.0  # for a shared file system to show what a node has written
_GRACE_POLL_S = 0.5
_SILENT_S = 30.0  # until the user reads that Slurm does not answer
_OVER = set(ENDED) - {"interrupted"}  # an interrupted job may come back: its node was set down
_POLLS_UNTIL_FINAL = 2  # polls for which a reason has to stand


@dataclass
class _SlurmBatch:
    """A batch that is being run.

    Of its runs ``wanted`` are to be run, and ``began`` have had a job. ``jobs`` has the arrays, also those
    that are left to submit. ``queued`` has the jobs of the last squeue. ``room`` is the number of runs that
    may be there at a time, and ``capacity`` the smaller one that Slurm has accepted. ``is_left``: nothing
    waits for the jobs. ``never`` counts the polls in which a job had a final reason.
    """

    batch: Batch
    jobs: jobs.Jobs
    room: int
    wanted: frozenset[int]
    states: Mapping[int, RunState]
    queued: dict[int, commands.QueuedJob]
    began: set[int] = field(default_factory=set)
    capacity: int = 0
    is_left: bool = False
    never: dict[tuple[str, str], int] = field(default_factory=dict)
    refusal: Unavailable | None = None
    note: str = ""

    @property
    def left(self) -> list[int]:
        return [number for part in self.jobs.left for number in part.numbers]

    @property
    def ids(self) -> list[str]:
        return list(dict.fromkeys(job.id for job in self.queued.values()))

    def write(self, **changes: Any) -> None:
        """Change jobs.json."""
        changed = replace(self.jobs, **changes)
        if changed != self.jobs:
            self.jobs = changed
            jobs.write_jobs(self.batch, changed)


def run_all(request: BatchRequest, numbers: Sequence[int], on_progress: OnProgress) -> None:
    """Run these runs. Wait for them, and for runs of the batch that are in the queue already.

    Raises Unavailable if Slurm refuses the jobs or will never start them. SIGINT and SIGTERM raise
    KeyboardInterrupt, with the signal unless it is SIGINT; the jobs go on. After `batch cancel` this returns
    when the jobs have ended.
    """
    batch = request.batch
    if not numbers and all(state.state in ENDED for state in batch.survey().values()):
        return
    _prepare(batch)
    with _sigterm_interrupts(batch):
        slurm = _planned(request, numbers)
        _until_all_ended(slurm, on_progress)
    if slurm.refusal:
        raise slurm.refusal


def wait(batch: Batch, on_progress: OnProgress) -> None:
    """Wait for the jobs of a batch, and submit what a `batch run` left. Raises as ``run_all`` does."""
    with _sigterm_interrupts(batch):
        slurm = _begun(batch, jobs.read_jobs(batch))
        _until_all_ended(slurm, on_progress)
        _wait_for_collecting(slurm, on_progress)
    if slurm.refusal:
        raise slurm.refusal


def submit_all(
    request: BatchRequest, numbers: Sequence[int], *, collects: bool
) -> tuple[list[str], int, str]:
    """Submit these runs, and a job that collects when all have ended.

    Return the ids of the jobs, the number of runs that have none because there is no room, and why. Raises
    Unavailable if Slurm refuses all of them, or the job that collects.
    """
    _prepare(request.batch)
    slurm = _planned(request, numbers)
    slurm.is_left = True
    _submit(slurm)
    ids = slurm.ids
    if collects and ids:
        job = commands.submit(submission.collect_command(slurm.batch, ids))
        slurm.write(collect=job)
        ids.append(job)
    return ids, len(slurm.left), slurm.note


def write(request: BatchRequest, numbers: Sequence[int], limits: commands.ClusterLimits) -> Path:
    """Write the scripts that submit and run these runs. Return the path of the one that submits."""
    _prepare(request.batch)
    planned = submission.planned_jobs(request, numbers, limits.array_size)
    submission.write_scripts(request, planned)
    jobs.write_jobs(request.batch, replace(planned, jobs=jobs.read_jobs(request.batch).jobs, left=()))
    collects = bool(request.options["collect_after"])
    return submission.write_by_hand(request.batch, planned, collects=collects)


def _planned(request: BatchRequest, numbers: Sequence[int]) -> _SlurmBatch:
    """Return the batch, with the scripts of these runs written, and those left to submit that have no job."""
    limits = commands.limits()
    planned = submission.planned_jobs(request, numbers, limits.array_size)
    before = jobs.read_jobs(request.batch)
    slurm = _begun(request.batch, replace(planned, jobs=before.jobs, collect=before.collect), limits)
    submission.write_scripts(request, planned)
    jobs.write_jobs(slurm.batch, slurm.jobs)
    slurm.wanted = frozenset(numbers)
    return slurm


def _begun(batch: Batch, known: jobs.Jobs, limits: commands.ClusterLimits | None = None) -> _SlurmBatch:
    """Return the batch as it is in the queue. Raises OutputError if its jobs work in another folder."""
    queued = jobs.in_queue(batch)
    if queued and (other := jobs.working_elsewhere(batch)):
        cancel = f"`nsyswrap batch cancel {shlex.quote(str(batch.folder))}`"
        raise OutputError(
            f"{batch.folder} was moved or copied: its jobs in Slurm's queue work in {other}",
            f"use {cancel} first; the jobs have made {other} again, and write there"
            if os.access(other, os.F_OK)
            else f"move it back, or use {cancel} first",
        )
    limits = limits or commands.limits()
    left = frozenset(number for part in known.left for number in part.numbers)
    states = jobs.states(batch, queued, {})
    slurm = _SlurmBatch(batch, known, max(1, limits.jobs // 2), left, states, queued, set(queued))
    slurm.capacity = slurm.room
    _remember_unknown_jobs(slurm)
    _leave_out_queued(slurm)
    return slurm


@contextmanager
def _sigterm_interrupts(batch: Batch) -> Iterator[None]:
    """Make SIGTERM a KeyboardInterrupt, except after `batch cancel`, when running jobs still have to end."""

    def interrupt(number: int, _: FrameType | None) -> None:
        if not jobs.is_cancelled(batch):
            raise KeyboardInterrupt(signal.Signals(number))

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _until_all_ended(slurm: _SlurmBatch, on_progress: OnProgress) -> None:
    pause = Pause()
    while True:
        _submit(slurm)
        ids = commands.job_list(slurm.ids) if slurm.ids else ""
        on_progress(_states_to_show(slurm), ": ".join(filter(None, (ids, slurm.note))))
        if not slurm.left and not _at_work(slurm):
            break
        time.sleep(pause.seconds())
        _poll(slurm)
        _give_up_on_final(slurm)
        _give_up_on_empty(slurm)
    _wait_for_files(slurm)
    on_progress(_states_to_show(slurm), "")


def _wait_for_collecting(slurm: _SlurmBatch, on_progress: OnProgress) -> None:
    """Wait for the job that collects: two at a time would write the same tables."""
    job, pause = slurm.jobs.collect, Pause()
    while job and not slurm.refusal:
        found = [one for one in commands.jobs() if one.id == job and one.state != "COMPLETING"]
        if not found or commands.why_never(found[0].reason):
            return
        on_progress(slurm.states, f"waiting for job {job}, which collects")
        time.sleep(pause.seconds())


def _states_to_show(slurm: _SlurmBatch) -> Mapping[int, RunState]:
    """Return the states. A run that is to be run again counts as planned until it has a job."""
    waiting = {n for n in slurm.wanted - slurm.began if slurm.states[n].state != "done"}
    planned = {n: RunState(n, slurm.states[n].folder, "planned") for n in waiting}
    return {**slurm.states, **planned}


def _prepare(batch: Batch) -> None:
    if "\\" in str(batch.folder.absolute()):
        raise OutputError(
            f"Slurm cannot write logs to a path with a backslash: {batch.folder}", "use another --output"
        )
    with paths.writing(batch.folder / FOLDER):
        make_folder(batch.folder / FOLDER, share_of(batch.folder))
        jobs.forget_cancelling(batch)


def _remember_unknown_jobs(slurm: _SlurmBatch) -> None:
    """Add the jobs to jobs.json whose submitter was killed before it could."""
    known = {array.job for array in slurm.jobs.jobs}
    for job in {job.id for job in slurm.queued.values()} - known:
        numbers = [number for number, one in slurm.queued.items() if one.id == job]
        offset = int(slurm.queued[numbers[0]].mark.rpartition(":")[2])
        array = jobs.Array(job, offset, commands.as_text(number - offset for number in numbers))
        slurm.write(jobs=(*slurm.jobs.jobs, array))


def _submit(slurm: _SlurmBatch) -> None:
    """Submit as many of the runs left as there is room for. ``note`` says why others are left."""
    if not slurm.queued:
        slurm.capacity = slurm.room
    while slurm.left and not jobs.is_cancelled(slurm.batch):
        part, most = slurm.jobs.left[0], _room(slurm)
        if most == 0:
            return
        try:
            _submit_array(slurm, most)
        except commands.TooMany as error:
            waiting, tasks = len(slurm.queued), min(most, len(part.numbers))
            if tasks == 1 and not _at_work(slurm):
                raise
            slurm.note = error.message  # a smaller array, or later
            slurm.capacity = waiting + tasks // 2
        except Unavailable as error:
            if not isinstance(error, commands.QueueFull) and not _at_work(slurm):
                raise
            slurm.note = error.message  # there may be room when other jobs have ended
            return
    if jobs.is_cancelled(slurm.batch):
        slurm.write(left=())


def _room(slurm: _SlurmBatch) -> int:
    """Return how many tasks the next array may have. Slurm limits the number of jobs of all users."""
    waiting, tasks = len(slurm.queued), len(slurm.jobs.left[0].numbers)
    if waiting and slurm.jobs.max_running and not submission.can_follow(slurm.jobs.left[0]):
        slurm.note = slurm.note or "the next runs wait until the first ones have ended"
        return 0
    room = max(0, slurm.capacity - waiting)
    if tasks <= room or room > slurm.capacity // 2 or (room and slurm.is_left):
        return min(room, tasks)
    slurm.note = slurm.note or f"Slurm's queue has room for {slurm.capacity:,} runs of this batch at a time"
    return 0


def _submit_array(slurm: _SlurmBatch, most: int) -> None:
    job_array, rest = submission.part_of(slurm.jobs.left[0], most)
    job = commands.submit(submission.array_command(slurm.batch, slurm.jobs, job_array, slurm.ids))
    left = (*([rest] if rest else []), *slurm.jobs.left[1:])
    slurm.write(jobs=(*slurm.jobs.jobs, replace(job_array, job=job)), left=left)
    slurm.began |= set(job_array.numbers)
    waiting = commands.QueuedJob(job, commands.indexes(job_array.tasks), "PENDING", "None", "")
    slurm.queued |= dict.fromkeys(job_array.numbers, waiting)
    slurm.states = {**slurm.states, **{n: jobs.with_job(slurm.states[n], waiting) for n in job_array.numbers}}


def _poll(slurm: _SlurmBatch) -> None:
    """Read the queue and the folders. If Slurm does not answer, the states stay as they are."""
    silent_since: float | None = None
    while True:
        try:
            slurm.queued = jobs.in_queue(slurm.batch)
            break
        except Unavailable as error:
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > _SILENT_S:
                slurm.note = f"{error.message}; waiting for Slurm"
                return
            time.sleep(_FIRST_POLL_S)
    slurm.states = jobs.states(slurm.batch, slurm.queued, slurm.states)
    slurm.note = commands.in_words(set(slurm.queued.values()))
    _leave_out_queued(slurm)
    if not paths.exists(slurm.batch.folder / BATCH):
        raise OutputError(
            f"{slurm.batch.folder} was moved or removed while its jobs run",
            "move it back: the jobs write into it; then use the same command",
        )


def _leave_out_queued(slurm: _SlurmBatch) -> None:
    """Submit no run that is done, nor one with a job, unless that job is about to end."""
    busy = {number for number, job in slurm.queued.items() if job.state != "COMPLETING"}
    kept = []
    for part in slurm.jobs.left:
        numbers = [n for n in part.numbers if n in slurm.states and n not in busy]
        if numbers := [n for n in numbers if slurm.states[n].state != "done"]:
            kept.append(replace(part, tasks=commands.as_text(n - part.offset for n in numbers)))
    slurm.write(left=tuple(kept))


def _at_work(slurm: _SlurmBatch) -> bool:
    """Return True if a job of the batch is still running or waiting, not only being cleaned up."""
    return any(
        job.state != "COMPLETING" or slurm.states[number].state not in _OVER
        for number, job in slurm.queued.items()
    )


def _give_up_on_final(slurm: _SlurmBatch) -> None:
    """Cancel jobs that will never start, once their reason has stood for two polls. Submit no more runs."""
    waiting = {job for job in slurm.queued.values() if job.state == "PENDING"}
    final = {(job.id, job.reason): (job, why) for job in waiting if (why := commands.why_never(job.reason))}
    slurm.never = {key: slurm.never.get(key, 0) + 1 for key in final}
    for key, (job, (meaning, advice)) in final.items():
        if slurm.never[key] >= _POLLS_UNTIL_FINAL:
            commands.cancel([f"{job.id}_[{commands.as_text(job.tasks)}]"], waiting_only=True)
            slurm.refusal = Unavailable(f"job {job.id} can never start: {meaning}", advice)
            slurm.write(left=())


def _give_up_on_empty(slurm: _SlurmBatch) -> None:
    """Cancel what waits, and submit no more, once the first runs have no GPU work and the plan says so."""
    own = (state for number, state in slurm.states.items() if number in slurm.wanted)
    why = without_gpu_work(own, slurm.jobs.stop_after_empty)
    if why and not slurm.refusal:
        commands.cancel(slurm.ids, waiting_only=True)
        slurm.refusal = Unavailable(why, EMPTY_ADVICE)
        slurm.write(left=())


def _wait_for_files(slurm: _SlurmBatch) -> None:
    """Give a shared file system time to show how the last runs ended."""
    deadline = time.monotonic() + _GRACE_S
    while not slurm.refusal and time.monotonic() < deadline:
        unclear = [n for n in slurm.began if slurm.states[n].state not in ENDED]
        if not unclear:
            return
        for number in unclear:
            paths.names(slurm.batch.run_folder(number), paths.ignore)  # makes NFS fetch new entries
        time.sleep(_GRACE_POLL_S)
        slurm.states = jobs.states(slurm.batch, {}, slurm.states)
