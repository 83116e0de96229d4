"""Show the states of the runs of a batch: while it runs, and on request (``batch status``). End a batch.

The progress is a bar on a terminal, and elsewhere a line for each run that has ended.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

from nsyswrap.base import run_facts
from nsyswrap.base.errors import OutputError
from nsyswrap.base.files import holder_here, is_locked, terminate
from nsyswrap.base.run_folder import outcome_words
from nsyswrap.base.text import counted, printable, screen_width
from nsyswrap.cli.output import clear_screen, note, progress_line, say, terminal_layout
from nsyswrap.record.batch import executors
from nsyswrap.record.batch.folder import (
    ENDED,
    UNFINISHED,
    Batch,
    Pause,
    RunState,
    State,
    open_batch,
    read_state,
)

if TYPE_CHECKING:
    from pathlib import Path


_BAR, _SHORTEST_BAR = 30, 6  # columns
_UNITS = ((1, "s"), (60, "min"), (3600, "h"))
_MOST_UNITS = 100  # an estimate has no more digits
_NOT_ENDED: tuple[State, ...] = ("lost", "running", "planned")
_FAILED = set(ENDED) - {"done", "interrupted"}


def in_words(states: Mapping[int, RunState]) -> str:
    """Return how many runs are in each state: ``4 done, 1 running, 2 planned``."""
    counts = Counter(state.state for state in states.values())
    return ", ".join(
        f"{counts[state]:,} {outcome_words(state)}" for state in (*ENDED, *_NOT_ENDED) if counts[state]
    )


def ending(state: RunState) -> str:
    """Return the state of a run, and why it ended so."""
    message = state.status.message if state.status else ""
    return outcome_words(state.state) + (f": {printable(message)}" if message else "")


@contextmanager
def progress(states: Mapping[int, RunState], wanted: Collection[int]) -> Iterator[executors.OnProgress]:
    """Yield the function that an executor calls when a run changes.

    ``states`` has the states of all runs before; those ``wanted`` will be run, even if they have ended.
    """
    before = {number for number, state in states.items() if state.state in ENDED} - set(wanted)
    if not sys.stderr.isatty():
        yield _Lines(before)
        return
    clock, line, width = Clock(len(before)), progress_line(), terminal_layout().width

    def show(now: Mapping[int, RunState], text: str) -> None:
        ended = sum(state.state in ENDED for state in now.values())
        facts = _fitting(width - 1, in_words(now), clock.passed(), clock.left(ended, len(now)), text)
        bar = min(_BAR, width - len(facts) - 2)  # the facts come first
        done = "█" * (bar * ended // max(len(now), 1))
        line(f"{done:░<{bar}} {facts}" if bar >= _SHORTEST_BAR else facts)

    try:
        yield show
    finally:
        line("")


def _fitting(width: int, counts: str, passed: str, left: str, text: str) -> str:
    """Return the facts that fit on a line. If the reasons of waiting jobs do not fit, the ids stay."""
    facts = [counts, "", "", ""]
    for place, choices in ((2, (left,)), (3, (text, text.partition(": ")[0])), (1, (passed,))):
        for choice in choices:
            longer = [*facts[:place], choice, *facts[place + 1 :]]
            if not facts[place] and screen_width(", ".join(filter(None, longer))) <= width:
                facts = longer
    return ", ".join(filter(None, facts))


class Clock:
    """Estimates the time that is left, from the runs that have ended since it was made."""

    def __init__(self, ended_before: int, now: Callable[[], float] = time.monotonic) -> None:
        """Start the clock. ``now`` returns seconds."""
        self._before, self._now, self._began = ended_before, now, now()

    def passed(self) -> str:
        """Return the time that has passed."""
        return str(timedelta(seconds=round(self._now() - self._began)))

    def left(self, ended: int, total: int) -> str:
        """Return the time left in words, or an empty text until a run has ended."""
        ended_since = ended - self._before
        if ended_since <= 0 or ended == total:
            return ""
        seconds = (self._now() - self._began) / ended_since * (total - ended)
        unit_s, unit = next((one for one in _UNITS if seconds < _MOST_UNITS * one[0]), _UNITS[-1])
        return f"about {max(1, round(seconds / unit_s)):,} {unit} left"


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


def run_again(states: Mapping[int, RunState]) -> str:
    """Return how the runs are run again that have not ended or have failed; empty if there are none."""
    failed = sum(state.state in _FAILED or state.lacks_gpu_work for state in states.values())
    rest = sum(state.state in UNFINISHED for state in states.values())
    parts = [
        f"the same `nsyswrap batch run` starts {counted(rest, 'more runs')}" if rest else "",
        f"--retry-failed repeats {counted(failed, 'failed runs')}" if failed else "",
    ]
    return "; ".join(filter(None, parts))


def wait_for_holder(batch: Batch, on_progress: executors.OnProgress) -> None:
    """Wait for a `batch run` that works in the folder."""
    pause = Pause()
    states: Mapping[int, RunState] = {}
    while is_locked(batch.folder):
        states = executors.batch_state(batch, states).runs
        on_progress(states, "another `nsyswrap batch` uses the folder")
        time.sleep(pause.seconds())


def show_status(folder: Path, *, watch: bool, top: int) -> None:
    """Print the states of the runs. With ``watch`` print them again until all runs have ended."""
    batch = open_batch(folder)
    state, pause = executors.batch_state(batch), Pause()
    shown = ""
    while watch:
        if (screen := _screen(batch, state, top)) != shown:
            clear_screen()
            say(screen)
            shown = screen
        is_running = any(run.state == "running" for run in state.runs.values())
        if not (state.is_queued or is_running or is_locked(batch.folder)):
            return
        time.sleep(pause.seconds())
        state = executors.batch_state(batch, state.runs)
    say(_screen(batch, state, top))


def _screen(batch: Batch, state: executors.BatchState, top: int) -> str:
    """Return the counts, what queued jobs wait for, and a line for each run but done and planned ones."""
    at_work = " (batch in progress)" if is_locked(batch.folder) else ""
    lines = [f"{batch.name}: {counted(len(state.runs), 'runs')}: {in_words(state.runs)}{at_work}"]
    lines += [f"  {waiting}" for waiting in state.waiting]
    runs = [
        run
        for run in state.runs.values()
        if run.state not in ("done", "planned") or (run.status and run.status.exit_code)
    ]
    runs.sort(key=lambda run: run.state in ENDED)
    names = [printable(run.folder.name) for run in runs[:top]]
    width = max(map(screen_width, names), default=0)
    lines += [
        f"  {name}{' ' * (width - screen_width(name))}  {ending(run)}{_where(run)}"
        for name, run in zip(names, runs, strict=False)
    ]
    if len(runs) > top:
        lines.append(f"  … {len(runs) - top:,} more (use --top to show them)")
    if not at_work and not state.is_queued and (again := run_again(state.runs)):
        lines.append(f"  {again}")
    return "\n".join(lines) + "\n"


def _where(state: RunState) -> str:
    if state.claim is None:
        return ""
    job = f", job {state.claim.job}" if state.claim.job else ""
    if state.state in ENDED:
        return f" (on {state.claim.host}{job})"
    minutes = (time.time() - state.claim.began) / 60
    return f" (on {state.claim.host}{job}, started {minutes:.0f} min ago)"


def cancel(folder: Path) -> None:
    """End the runs of a batch that are running or queued, and the `batch run` of this machine."""
    batch = open_batch(folder)
    holder = 0
    try:
        ended = sum(executor.cancel(batch) for executor in executors.by_name().values())
    finally:
        if holder := holder_here(folder):
            terminate(holder)
    if not (ended or holder):
        note(f"nsyswrap: no run of {folder} is running or waiting")
        return
    note(
        f"nsyswrap: ending the runs of {folder}; they write their reports\n"
        "  use the same `nsyswrap batch run` to continue"
    )


def state_reader() -> Callable[[Path], tuple[str, str]]:
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

    def read(folder: Path) -> tuple[str, str]:
        state = of_batch(run_facts.batch_of(folder.absolute())).get(folder.name) or read_state(folder)
        return state.state, state.status.message if state.status else ""

    return read
