"""``nsyswrap batch status`` and ``batch cancel``: show the states of the runs of a batch, and end it."""

from __future__ import annotations

import os
import signal
import time
from functools import cache
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import OutputError
from nsyswrap.base.folder_lock import holder_here, is_locked
from nsyswrap.cli.batch_progress import ending, in_words, reason
from nsyswrap.cli.output import note
from nsyswrap.record.batch import executors
from nsyswrap.record.batch.folder import ENDED, Batch, RunState, open_batch, read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from nsyswrap.record.batch.executors import BatchState

_WATCH_S = 2.0


def show_status(folder: Path, *, watch: bool, top: int) -> None:
    """Print the states of the runs. With ``watch`` print them again until all runs have ended."""
    batch = open_batch(folder)
    state = executors.batch_state(batch)
    text = _screen(batch, state, top)
    while watch and (state.is_queued or _is_going_on(batch, state.runs)):
        _redraw(text)
        time.sleep(_WATCH_S)
        state = executors.batch_state(batch, state.runs)
        text = _screen(batch, state, top)
    if watch:
        _redraw(text)
    else:
        click.echo(text, nl=False)


def _redraw(text: str) -> None:
    click.clear()  # does nothing without a terminal
    click.echo(text, nl=False)


def _is_going_on(batch: Batch, states: Mapping[int, RunState]) -> bool:
    return is_locked(batch.folder) or any(state.state == "running" for state in states.values())


def _screen(batch: Batch, state: BatchState, top: int) -> str:
    """Return the counts, what queued jobs wait for, and a line for each run but done and planned ones."""
    at_work = " (a batch is at work)" if is_locked(batch.folder) else ""
    lines = [f"{batch.name}: {len(state.runs)} runs: {in_words(state.runs)}{at_work}"]
    lines += [f"  {waiting}" for waiting in state.waiting]
    runs = [run for run in state.runs.values() if run.state not in ("done", "planned")]
    runs.sort(key=lambda run: run.state in ENDED)
    width = max((len(run.folder.name) for run in runs[:top]), default=0)
    lines += [f"  {run.folder.name:<{width}}  {ending(run)}{_where(run)}" for run in runs[:top]]
    if len(runs) > top:
        lines.append(f"  … {len(runs) - top} more (--top)")
    return "\n".join(lines) + "\n"


def _where(state: RunState) -> str:
    if state.claim is None or state.state in ENDED:
        return ""
    job = f", job {state.claim.job}" if state.claim.job else ""
    minutes = (time.time() - state.claim.began) / 60
    return f" (on {state.claim.host}{job}, begun {minutes:.0f} min ago)"


def cancel(folder: Path) -> None:
    """End the runs of a batch that are running or queued, and the `batch run` of this machine."""
    batch = open_batch(folder)
    ended = sum(executor.cancel(batch) for executor in executors.by_name().values())
    holder = holder_here(folder)
    if holder:
        os.kill(holder, signal.SIGTERM)
    if not (ended or holder):
        note(f"nsyswrap: nothing of {folder} is running or waiting")
        return
    note(f"nsyswrap: {folder} is being ended; what was running writes its report. The same command goes on.")


def how_far() -> Callable[[Path], tuple[str, str]]:
    """Return a function from a run folder to the state of the run, and why it ended so.

    The states of a batch are read, and its queues asked, once.
    """

    @cache
    def of_batch(folder: Path) -> dict[str, RunState]:
        try:
            states = executors.batch_state(open_batch(folder)).runs
        except OutputError:  # the run folder is not part of a batch
            return {}
        return {state.folder.name: state for state in states.values()}

    def ask(folder: Path) -> tuple[str, str]:
        state = of_batch(folder.absolute().parent.parent).get(folder.name) or read_state(folder)
        return state.state, reason(state)

    return ask
