"""Show the progress of a batch: a bar on a terminal, elsewhere a line for each run that has ended."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.cli.output import note
from nsyswrap.record.batch.folder import ENDED, count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from nsyswrap.record.batch.executors import OnProgress
    from nsyswrap.record.batch.folder import RunState

with lazy_imports():  # used on a terminal only
    from rich import console as rich_console
    from rich import progress as rich_progress


@contextmanager
def progress(states: Mapping[int, RunState], wanted: Collection[int]) -> Iterator[OnProgress]:
    """Yield the function that an executor calls when a run changes.

    ``states`` has the states of all runs before; those ``wanted`` will be run, even if they have ended.
    """
    before = {number for number, state in states.items() if state.state in ENDED} - set(wanted)
    if not sys.stderr.isatty():
        yield _Lines(before)
        return
    columns = (
        rich_progress.BarColumn(bar_width=30),
        rich_progress.TextColumn("{task.description}", markup=False),
    )
    console = rich_console.Console(stderr=True)
    with rich_progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=len(states))
        clock = Clock(len(before))

        def show(now: Mapping[int, RunState], text: str) -> None:
            ended = sum(state.state in ENDED for state in now.values())
            words = ", ".join(filter(None, (in_words(now), clock.left(ended, len(now)), text)))
            bar.update(task, completed=ended, description=words)

        yield show


class Clock:
    """Estimates the time that is left, from the runs that have ended since it was made."""

    def __init__(self, ended_before: int, now: Callable[[], float] = time.monotonic) -> None:
        """Start the clock. ``now`` returns seconds."""
        self._before, self._now, self._began = ended_before, now, now()

    def left(self, ended: int, total: int) -> str:
        """Return the time left in words, or an empty text until a run has ended."""
        ended_since = ended - self._before
        if ended_since <= 0 or ended == total:
            return ""
        seconds = (self._now() - self._began) / ended_since * (total - ended)
        return f"about {timedelta(seconds=round(seconds))} left"


class _Lines:
    """Prints a line for each run that has ended or is lost, except those ``printed`` before."""

    def __init__(self, printed: set[int]) -> None:
        self._printed = printed
        self._lost: set[int] = set()
        self._text = ""

    def __call__(self, now: Mapping[int, RunState], text: str) -> None:
        if text and text != self._text:
            note(f"nsyswrap: {text}")
            self._text = text
        lost = {number for number, state in now.items() if state.state == "lost"}
        still_lost = lost & self._lost  # a shared file system may show late how a run has ended
        self._lost = lost
        for number, state in now.items():
            if number not in self._printed and (state.state in ENDED or number in still_lost):
                self._printed.add(number)
                note(f"nsyswrap: {state.folder.name}: {ending(state)} ({len(self._printed)} of {len(now)})")


def ending(state: RunState) -> str:
    """Return the state of a run, and why it ended so."""
    message = reason(state)
    return state.state + (f": {message}" if message else "")


def reason(state: RunState) -> str:
    """Return why a run ended as it did, or an empty text if there is no reason."""
    return state.status.message if state.status else ""


def in_words(states: Mapping[int, RunState]) -> str:
    """Return how many runs are in each state: ``4 done, 1 running, 2 planned``."""
    return ", ".join(f"{n} {state}" for state, n in count(states.values()).items())
