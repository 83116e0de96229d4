"""What a batch shows while it runs: a bar on a terminal, elsewhere a line for each run that ended."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from nsyswrap.cli.output import note
from nsyswrap.record.batch.folder import ENDED, count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from nsyswrap.record.batch.folder import RunState

    OnProgress = Callable[[Mapping[int, RunState], str], None]


@contextmanager
def progress(states: Mapping[int, RunState], wanted: Collection[int]) -> Iterator[OnProgress]:
    """Yield what an executor calls when something has changed.

    ``states``: how the runs stand before it; those ``wanted`` are run, whether they have ended before or not.
    """
    before = {number for number, state in states.items() if state.state in ENDED} - set(wanted)
    if not sys.stderr.isatty():
        yield _Lines(before)
        return
    from rich.console import Console  # noqa: PLC0415 - most output goes elsewhere
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (BarColumn(bar_width=30), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=len(states))
        clock = Clock(len(before))

        def show(now: Mapping[int, RunState], text: str) -> None:
            ended = sum(state.state in ENDED for state in now.values())
            words = ", ".join(filter(None, (in_words(now), clock.left(ended, len(now)), text)))
            shown.update(task, completed=ended, description=words)

        yield show


class Clock:
    """Tells how long the rest will take, by the runs that ended since this began."""

    def __init__(self, ended_before: int, now: Callable[[], float] = time.monotonic) -> None:
        """Start."""
        self._before, self._now, self._began = ended_before, now, now()

    def left(self, ended: int, total: int) -> str:
        """Return the time left in words; empty while nothing tells."""
        ours = ended - self._before
        if ours <= 0 or ended == total:
            return ""
        seconds = (self._now() - self._began) / ours * (total - ended)
        return f"about {timedelta(seconds=round(seconds))} left"


class _Lines:
    """A line for each run that ended, or is lost. ``said``: runs of which nothing is to be told any more."""

    def __init__(self, said: set[int]) -> None:
        self._said = said
        self._lost: set[int] = set()
        self._text = ""

    def __call__(self, now: Mapping[int, RunState], text: str) -> None:
        if text and text != self._text:
            note(f"nsyswrap: {text}")
            self._text = text
        lost = {number for number, state in now.items() if state.state == "lost"}
        sure = lost & self._lost  # a shared file system may show late how a run ended
        self._lost = lost
        for number, state in now.items():
            if number not in self._said and (state.state in ENDED or number in sure):
                self._said.add(number)
                note(f"nsyswrap: {state.folder.name}: {ending(state)} ({len(self._said)} of {len(now)})")


def ending(state: RunState) -> str:
    """Return how a run stands, in words."""
    said = reason(state)
    return state.state + (f": {said}" if said else "")


def reason(state: RunState) -> str:
    """Return why a run ended as it did; empty where nothing is to be said."""
    return state.status.message if state.status else ""


def in_words(states: Mapping[int, RunState]) -> str:
    """Return how many runs are in each state: ``4 done, 1 running, 2 planned``."""
    return ", ".join(f"{n} {state}" for state, n in count(states.values()).items())
