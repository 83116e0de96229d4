"""Runs on a Slurm cluster: one job array, or several where the cluster's limits demand it.

Nothing here is needed for the jobs to go on: their states lie in the run folders, and whoever comes next
finds them in the queue.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nsyswrap.base.errors import OutputError, Unavailable
from nsyswrap.base.run_folder import existing, make_folder, share_of
from nsyswrap.record.batch.executors.slurm import commands
from nsyswrap.record.batch.executors.slurm.commands import array, as_text, in_words, why_never
from nsyswrap.record.batch.executors.slurm.jobs import (
    Array,
    beside,
    cancel,
    comment,
    forget_cancelling,
    in_queue,
    is_cancelled,
    remember,
    states,
    states_and_queue,
    submitted,
    with_job,
)
from nsyswrap.record.batch.executors.slurm.script import Settings, script
from nsyswrap.record.batch.folder import ENDED, SLURM, RunState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from nsyswrap.record.batch.folder import Batch

    OnProgress = Callable[[Mapping[int, RunState], str], None]

__all__ = ["Settings", "cancel", "execute_all", "script", "states", "states_and_queue"]

_FIRST_POLL_S, _LONGEST_POLL_S = 1.0, 15.0
_SLOWER = 20  # a poll for every so much of the time that has passed
_GRACE_S = 3.0  # for what a node has written to be seen here
_LOOK_S = 0.5
_SILENT_S = 30.0  # before it is said that Slurm does not answer
_OVER = set(ENDED) - {"interrupted"}  # a job whose node is set down may come back
_SEEN = 2  # polls in which a reason has to stand


@dataclass
class _Slurm:
    """A batch that is being run, and the runs that are ``wanted`` of it.

    ``left`` is still to be submitted; ``queued`` is what squeue told last; of ``began`` there was a job.
    """

    batch: Batch
    settings: Settings
    limits: commands.Limits
    wanted: frozenset[int]
    left: list[int]
    states: Mapping[int, RunState]
    queued: dict[int, commands.Job]
    began: set[int] = field(default_factory=set)
    never: dict[tuple[str, str], int] = field(default_factory=dict)
    refusal: Unavailable | None = None
    note: str = ""


def execute_all(batch: Batch, numbers: Sequence[int], settings: Settings, on_progress: OnProgress) -> None:
    """Run these runs, and wait for them and for those of the batch that are in the queue already.

    Raises Unavailable where Slurm refuses the jobs, or will never start them. KeyboardInterrupt, with the
    signal where it is not SIGINT, leaves the jobs alone. The batch cancelled, it ends when its jobs have.
    """
    if not numbers and all(state.state in ENDED for state in batch.survey().values()):
        return
    _prepare(batch)
    with _sigterm_noted(batch):
        limits = commands.limits()
        queued = in_queue(batch)
        found = beside(batch, queued)
        wanted = frozenset(numbers)
        slurm = _Slurm(batch, settings, limits, wanted, list(numbers), found, queued, began=set(queued))
        _remember_found(slurm)
        _leave_to_others(slurm)
        _until_all_ended(slurm, on_progress)
    if slurm.refusal:
        raise slurm.refusal


@contextmanager
def _sigterm_noted(batch: Batch) -> Iterator[None]:
    """Make SIGTERM an interruption, unless it comes from `batch cancel`: then what ran still has to end."""

    def note(number: int, _: FrameType | None) -> None:
        if not is_cancelled(batch):
            raise KeyboardInterrupt(signal.Signals(number))

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _until_all_ended(slurm: _Slurm, on_progress: OnProgress) -> None:
    started = time.monotonic()
    while True:
        _submit(slurm)
        on_progress(_shown(slurm), slurm.note)
        if not slurm.left and not _at_work(slurm):
            break
        passed_s = time.monotonic() - started
        time.sleep(min(_LONGEST_POLL_S, max(_FIRST_POLL_S, passed_s / _SLOWER)))
        _poll(slurm)
        _give_up_on_final(slurm)
    _await_files(slurm)
    on_progress(_shown(slurm), "")


def _shown(slurm: _Slurm) -> Mapping[int, RunState]:
    """Return the states; a run that is wanted again is planned, until there is a job for it."""
    waiting = {n for n in slurm.wanted - slurm.began if slurm.states[n].state != "done"}
    planned = {n: RunState(n, slurm.states[n].folder, "planned") for n in waiting}
    return {**slurm.states, **planned}


def _prepare(batch: Batch) -> None:
    if "\\" in str(batch.folder.absolute()):
        raise OutputError(f"Slurm writes no logs below a backslash: {batch.folder}", "give another --output")
    try:
        make_folder(batch.folder / SLURM, share_of(batch.folder))
        forget_cancelling(batch)
    except OSError as error:
        raise OutputError(f"cannot write {batch.folder / SLURM}: {error.strerror}") from None


def _remember_found(slurm: _Slurm) -> None:
    """Write down the jobs whose submitter was ended before it could."""
    known = {array.job for array in submitted(slurm.batch)}
    for job in {job.id for job in slurm.queued.values()} - known:
        numbers = [number for number, one in slurm.queued.items() if one.id == job]
        offset = int(slurm.queued[numbers[0]].comment.rpartition(":")[2])
        remember(slurm.batch, Array(job, offset, as_text(number - offset for number in numbers)))


def _submit(slurm: _Slurm) -> None:
    """Submit what there is room for."""
    while (wave := _next_wave(slurm)) and not is_cancelled(slurm.batch):
        size = slurm.limits.array_size
        offset = wave[0] // size * size
        try:
            _submit_array(slurm, offset, wave)
        except Unavailable as error:
            if not isinstance(error, commands.QueueFull) and not _at_work(slurm):
                raise
            slurm.note = str(error)  # there may be room when others have ended
            return
    if is_cancelled(slurm.batch):
        slurm.left = []


def _next_wave(slurm: _Slurm) -> list[int]:
    """Return runs for one array: its largest index is limited, and so are the jobs of all users together."""
    waiting = len(slurm.queued)
    left = [number for number in slurm.left if number not in slurm.queued]
    if not left or (slurm.settings.max_running and waiting):  # two arrays would run twice as many
        return []
    size = slurm.limits.array_size
    same = [number for number in left if number // size == left[0] // size]
    capacity = max(1, slurm.limits.jobs // 2)
    room = max(0, capacity - waiting)
    return same[:room] if len(same) <= room or room > capacity // 2 else []


def _submit_array(slurm: _Slurm, offset: int, numbers: Sequence[int]) -> None:
    batch, settings = slurm.batch, slurm.settings
    folder = existing(batch.folder.absolute() / SLURM)
    name = f"job-{offset}.sh"
    folder.write(name, script(batch, settings, offset))
    tasks = [number - offset for number in numbers]
    job = commands.submit(folder.path / name, comment(batch, offset), array(tasks, settings.max_running))
    remember(batch, Array(job, offset, as_text(tasks)))
    slurm.left = [number for number in slurm.left if number not in set(numbers)]
    slurm.began |= set(numbers)
    waiting = commands.Job(job, tuple(tasks), "PENDING", "None", "")
    slurm.queued |= dict.fromkeys(numbers, waiting)
    slurm.states = {**slurm.states, **{n: with_job(slurm.states[n], waiting) for n in numbers}}


def _poll(slurm: _Slurm) -> None:
    """Ask Slurm and the folders. That Slurm does not answer tells nothing about the jobs."""
    silent_since: float | None = None
    while True:
        try:
            slurm.queued = in_queue(slurm.batch)
            break
        except Unavailable as error:
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > _SILENT_S:
                slurm.note = f"{error}; waiting for Slurm"
                return
            time.sleep(_FIRST_POLL_S)
    slurm.states = beside(slurm.batch, slurm.queued, slurm.states)
    slurm.note = in_words(set(slurm.queued.values()))
    _leave_to_others(slurm)


def _leave_to_others(slurm: _Slurm) -> None:
    """Submit no run that is done or has a job, unless that is about to end."""
    busy = {number for number, job in slurm.queued.items() if job.state != "COMPLETING"}
    slurm.left = [n for n in slurm.left if n not in busy and slurm.states[n].state != "done"]


def _at_work(slurm: _Slurm) -> bool:
    """Whether a job is still at a run of the batch. One that Slurm is only clearing up after is not."""
    return any(
        job.state != "COMPLETING" or slurm.states[number].state not in _OVER
        for number, job in slurm.queued.items()
    )


def _give_up_on_final(slurm: _Slurm) -> None:
    """Cancel what will never start, once its reason has stood for two polls; submit no more of it."""
    waiting = {job for job in slurm.queued.values() if job.state == "PENDING"}
    final = {(job.id, job.reason): (job, why) for job in waiting if (why := why_never(job.reason))}
    slurm.never = {key: slurm.never.get(key, 0) + 1 for key in final}
    for key, (job, (meaning, cure)) in final.items():
        if slurm.never[key] >= _SEEN:
            commands.cancel([f"{job.id}_[{as_text(job.tasks)}]"], waiting_only=True)
            slurm.refusal = Unavailable(f"job {job.id} would never start: {meaning}", cure)
            slurm.left = []


def _await_files(slurm: _Slurm) -> None:
    """Give a shared file system time to show how the last runs ended."""
    deadline = time.monotonic() + _GRACE_S
    while not slurm.refusal and time.monotonic() < deadline:
        unclear = [n for n in slurm.began if slurm.states[n].state not in ENDED]
        if not unclear:
            return
        for number in unclear:
            with suppress(OSError):  # somebody took it away
                list(
                    slurm.batch.run_folder(number).iterdir()
                )  # NFS then looks again for what it has not seen
        time.sleep(_LOOK_S)
        slurm.states = beside(slurm.batch, {}, slurm.states)
