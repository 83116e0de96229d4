"""``nsyswrap batch status`` and ``batch cancel``: how the runs of a batch stand, and ending them."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import TYPE_CHECKING

import click

from nsyswrap.base.folder_lock import holder_here, is_locked
from nsyswrap.cli.batch_progress import ending, in_words
from nsyswrap.cli.output import note
from nsyswrap.record.batch.folder import ENDED, Batch, RunState, open_batch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nsyswrap.record.batch.executors.slurm.commands import Job

_WATCH_S = 2.0


def show_status(folder: Path, *, watch: bool, top: int) -> None:
    """Print how the runs stand; with ``watch`` again and again, until all have ended."""
    from nsyswrap.record.batch.executors.slurm import executor as slurm  # noqa: PLC0415

    batch = open_batch(folder)
    states, queued = slurm.states_and_queue(batch)
    text = _screen(batch, states, queued, top)
    while watch and (queued or _is_going_on(batch, states)):
        _redraw(text)
        time.sleep(_WATCH_S)
        states, queued = slurm.states_and_queue(batch, states)
        text = _screen(batch, states, queued, top)
    if watch:
        _redraw(text)
    else:
        click.echo(text, nl=False)


def _redraw(text: str) -> None:
    click.clear()  # does nothing where there is no terminal
    click.echo(text, nl=False)


def _is_going_on(batch: Batch, states: Mapping[int, RunState]) -> bool:
    return is_locked(batch.folder) or any(state.state == "running" for state in states.values())


def _screen(batch: Batch, states: Mapping[int, RunState], queued: Mapping[int, Job], top: int) -> str:
    """Return the counts, what jobs wait for, and a line for each run that is not simply done or waiting."""
    from nsyswrap.record.batch.executors.slurm import commands  # noqa: PLC0415

    at_work = " (a batch is at work)" if is_locked(batch.folder) else ""
    lines = [f"{batch.name}: {len(states)} runs: {in_words(states)}{at_work}"]
    waiting = commands.in_words(set(queued.values()))
    lines += [f"  in Slurm's queue: {waiting}"] if waiting else []
    told = [state for state in states.values() if state.state not in ("done", "planned")]
    told.sort(key=lambda state: state.state in ENDED)
    width = max((len(state.folder.name) for state in told[:top]), default=0)
    lines += [f"  {state.folder.name:<{width}}  {ending(state)}{_where(state)}" for state in told[:top]]
    if len(told) > top:
        lines.append(f"  … {len(told) - top} more (--top)")
    return "\n".join(lines) + "\n"


def _where(state: RunState) -> str:
    if state.claim is None or state.state in ENDED:
        return ""
    job = f", job {state.claim.job}" if state.claim.job else ""
    minutes = (time.time() - state.claim.began) / 60
    return f" (on {state.claim.host}{job}, begun {minutes:.0f} min ago)"


def cancel(folder: Path) -> None:
    """End what runs here, and take the batch's jobs out of Slurm's queue."""
    batch = open_batch(folder)
    jobs = _cancel_jobs(batch)
    here = holder_here(folder)
    if here:
        os.kill(here, signal.SIGTERM)
    orphans = [] if here else _running_here(batch)
    for pid in orphans:
        os.kill(pid, signal.SIGTERM)
    if not (jobs or here or orphans):
        note(f"nsyswrap: nothing of {folder} is running or waiting")
        return
    note(f"nsyswrap: {folder} is being ended; what was running writes its report. The same command goes on.")


def _cancel_jobs(batch: Batch) -> int:
    from nsyswrap.record.batch.executors.slurm import executor as slurm  # noqa: PLC0415

    return slurm.cancel(batch)


def _running_here(batch: Batch) -> list[int]:
    """Return the processes of runs whose batch is no more."""
    claims = [state.claim for state in batch.survey().values() if state.state == "running" and state.claim]
    return [claim.pid for claim in claims if claim.host == socket.gethostname() and not claim.job]
