"""Run a batch on a Slurm cluster: one job array, or several if the cluster limits their size.

The jobs do not need this process. Their states lie in the run folders, and the same command started again
finds the jobs in the queue.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.run_folder import existing, make_folder, share_of
from nsyswrap.record.batch.executors.slurm import commands, jobs
from nsyswrap.record.batch.executors.slurm.commands import array, as_text, in_words, why_never
from nsyswrap.record.batch.executors.slurm.groups import groups
from nsyswrap.record.batch.executors.slurm.jobs import (
    Array,
    comment,
    in_queue,
    is_cancelled,
    remember,
    with_job,
)
from nsyswrap.record.batch.executors.slurm.script import FOLDER, job_script, max_running
from nsyswrap.record.batch.folder import ENDED, RunState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

    from nsyswrap.record.batch.executors import OnProgress, Request
    from nsyswrap.record.batch.executors.slurm.groups import Group
    from nsyswrap.record.batch.folder import Batch

_FIRST_POLL_S, _LONGEST_POLL_S = 1.0, 15.0
_SLOWER = 20  # a poll takes place after each 1/20 of the time that has passed
_GRACE_S = 3.0  # for a shared file system to show what a node has written
_GRACE_POLL_S = 0.5
_SILENT_S = 30.0  # until the user reads that Slurm does not answer
_OVER = set(ENDED) - {"interrupted"}  # an interrupted job may come back: its node was set down
_POLLS_UNTIL_FINAL = 2  # polls for which a reason has to stand


@dataclass
class _SlurmBatch:
    """A batch that is being run.

    Of its runs ``wanted`` are to be run, ``left`` are still to be submitted, and ``began`` have had a job.
    ``queued`` has the jobs of the last squeue. ``never`` counts the polls in which a job had a final reason.
    """

    request: Request
    limits: commands.Limits
    wanted: frozenset[int]
    left: list[int]
    states: Mapping[int, RunState]
    queued: dict[int, commands.Job]
    began: set[int] = field(default_factory=set)
    never: dict[tuple[str, str], int] = field(default_factory=dict)
    groups: Mapping[int, Group] = field(default_factory=dict)
    refusal: Unavailable | None = None
    note: str = ""

    @property
    def batch(self) -> Batch:
        return self.request.batch


def run_all(request: Request, numbers: Sequence[int], on_progress: OnProgress) -> None:
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
        limits = commands.limits()
        queued = in_queue(batch)
        states = jobs.states(batch, queued, {})
        wanted, left = frozenset(numbers), list(numbers)
        slurm = _SlurmBatch(request, limits, wanted, left, states, queued, began=set(queued))
        slurm.groups = groups(request.plan, batch)
        _remember_unknown_jobs(slurm)
        _leave_out_queued(slurm)
        _until_all_ended(slurm, on_progress)
    if slurm.refusal:
        raise slurm.refusal


@contextmanager
def _sigterm_interrupts(batch: Batch) -> Iterator[None]:
    """Make SIGTERM a KeyboardInterrupt, except after `batch cancel`, when running jobs still have to end."""

    def interrupt(number: int, _: FrameType | None) -> None:
        if not is_cancelled(batch):
            raise KeyboardInterrupt(signal.Signals(number))

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _until_all_ended(slurm: _SlurmBatch, on_progress: OnProgress) -> None:
    started = time.monotonic()
    while True:
        _submit(slurm)
        on_progress(_states_to_show(slurm), slurm.note)
        if not slurm.left and not _at_work(slurm):
            break
        passed_s = time.monotonic() - started
        time.sleep(min(_LONGEST_POLL_S, max(_FIRST_POLL_S, passed_s / _SLOWER)))
        _poll(slurm)
        _give_up_on_final(slurm)
    _wait_for_files(slurm)
    on_progress(_states_to_show(slurm), "")


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
    try:
        make_folder(batch.folder / FOLDER, share_of(batch.folder))
        jobs.forget_cancelling(batch)
    except OSError as error:
        raise OutputError(f"cannot write {batch.folder / FOLDER}: {error.strerror}") from None


def _remember_unknown_jobs(slurm: _SlurmBatch) -> None:
    """Add the jobs to jobs.json whose submitter was killed before it could."""
    known = {array.job for array in jobs.submitted(slurm.batch)}
    for job in {job.id for job in slurm.queued.values()} - known:
        numbers = [number for number, one in slurm.queued.items() if one.id == job]
        offset = int(slurm.queued[numbers[0]].comment.rpartition(":")[2])
        remember(slurm.batch, Array(job, offset, as_text(number - offset for number in numbers)))


def _submit(slurm: _SlurmBatch) -> None:
    """Submit as many of the runs left as there is room for."""
    while (wave := _next_wave(slurm)) and not is_cancelled(slurm.batch):
        size = slurm.limits.array_size
        offset = wave[0] // size * size
        try:
            _submit_array(slurm, offset, wave)
        except Unavailable as error:
            if not isinstance(error, commands.QueueFull) and not _at_work(slurm):
                raise
            slurm.note = error.message  # there may be room when other jobs have ended
            return
    if is_cancelled(slurm.batch):
        slurm.left = []


def _next_wave(slurm: _SlurmBatch) -> list[int]:
    """Return runs for one array. Slurm limits its largest index, and the number of jobs of all users."""
    waiting = len(slurm.queued)
    left = [number for number in slurm.left if number not in slurm.queued]
    if not left or (max_running(slurm.request) and waiting):  # a second array would have a limit of its own
        return []
    size = slurm.limits.array_size
    group = slurm.groups.get(left[0])
    same = [n for n in left if n // size == left[0] // size and slurm.groups.get(n) is group]
    capacity = max(1, slurm.limits.jobs // 2)
    room = max(0, capacity - waiting)
    return same[:room] if len(same) <= room or room > capacity // 2 else []


def _submit_array(slurm: _SlurmBatch, offset: int, numbers: Sequence[int]) -> None:
    batch, plan = slurm.batch, slurm.request.plan
    folder = existing(batch.folder.absolute() / FOLDER)
    group = slurm.groups[numbers[0]]
    name = f"job-{numbers[0]}.sh"
    folder.write(name, job_script(batch, plan, offset, group))
    tasks = [number - offset for number in numbers]
    submitted = array(tasks, max_running(slurm.request))
    job = commands.submit(folder.path / name, comment(batch, offset), submitted)
    remember(batch, Array(job, offset, as_text(tasks)))
    slurm.left = [number for number in slurm.left if number not in set(numbers)]
    slurm.began |= set(numbers)
    waiting = commands.Job(job, tuple(tasks), "PENDING", "None", "")
    slurm.queued |= dict.fromkeys(numbers, waiting)
    slurm.states = {**slurm.states, **{n: with_job(slurm.states[n], waiting) for n in numbers}}


def _poll(slurm: _SlurmBatch) -> None:
    """Read the queue and the folders. If Slurm does not answer, the states stay as they are."""
    silent_since: float | None = None
    while True:
        try:
            slurm.queued = in_queue(slurm.batch)
            break
        except Unavailable as error:
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > _SILENT_S:
                slurm.note = f"{error.message}; waiting for Slurm"
                return
            time.sleep(_FIRST_POLL_S)
    slurm.states = jobs.states(slurm.batch, slurm.queued, slurm.states)
    slurm.note = in_words(set(slurm.queued.values()))
    _leave_out_queued(slurm)


def _leave_out_queued(slurm: _SlurmBatch) -> None:
    """Submit no run that is done, nor one with a job, unless that job is about to end."""
    busy = {number for number, job in slurm.queued.items() if job.state != "COMPLETING"}
    slurm.left = [n for n in slurm.left if n not in busy and slurm.states[n].state != "done"]


def _at_work(slurm: _SlurmBatch) -> bool:
    """Return True if a job of the batch is still running or waiting, not only being cleaned up."""
    return any(
        job.state != "COMPLETING" or slurm.states[number].state not in _OVER
        for number, job in slurm.queued.items()
    )


def _give_up_on_final(slurm: _SlurmBatch) -> None:
    """Cancel jobs that will never start, once their reason has stood for two polls. Submit no more runs."""
    waiting = {job for job in slurm.queued.values() if job.state == "PENDING"}
    final = {(job.id, job.reason): (job, why) for job in waiting if (why := why_never(job.reason))}
    slurm.never = {key: slurm.never.get(key, 0) + 1 for key in final}
    for key, (job, (meaning, advice)) in final.items():
        if slurm.never[key] >= _POLLS_UNTIL_FINAL:
            commands.cancel([f"{job.id}_[{as_text(job.tasks)}]"], waiting_only=True)
            slurm.refusal = Unavailable(f"job {job.id} can never start: {meaning}", advice)
            slurm.left = []


def _wait_for_files(slurm: _SlurmBatch) -> None:
    """Give a shared file system time to show how the last runs ended."""
    deadline = time.monotonic() + _GRACE_S
    while not slurm.refusal and time.monotonic() < deadline:
        unclear = [n for n in slurm.began if slurm.states[n].state not in ENDED]
        if not unclear:
            return
        for number in unclear:
            with suppress(OSError):  # the folder was removed
                list(slurm.batch.run_folder(number).iterdir())  # makes NFS fetch new entries
        time.sleep(_GRACE_POLL_S)
        slurm.states = jobs.states(slurm.batch, {}, slurm.states)
