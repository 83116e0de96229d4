"""Runs on this machine: one at a time, or one on each GPU that is named."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nsyswrap.base.run_folder import existing
from nsyswrap.record.batch.folder import RunState, look
from nsyswrap.record.supervisor import signals_noted

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nsyswrap.record.batch.folder import Batch

    OnProgress = Callable[[Mapping[int, RunState], str], None]

TASK_LOG = "task.log"
_POLL_S = 0.05
_POLL_OTHERS_S = 1.0


@dataclass
class _Place:
    """Where one run at a time can go: a GPU, or the machine as it is."""

    gpu: str | None
    number: int = 0
    process: subprocess.Popen[bytes] | None = None


@dataclass
class _Local:
    batch: Batch
    states: dict[int, RunState]
    on_progress: OnProgress
    places: list[_Place]
    received: list[signal.Signals] = field(default_factory=list)
    forwarded: int = 0


def execute_all(
    batch: Batch, numbers: Sequence[int], gpus: Sequence[str], on_progress: OnProgress
) -> signal.Signals | None:
    """Run these runs; ``gpus`` as CUDA_VISIBLE_DEVICES takes them, none: one run at a time, on what is there.

    Returns the signal that ended it, once every run has written its report; None: it came to its end.
    """
    states = batch.survey()
    states |= {n: RunState(n, states[n].folder, "planned") for n in numbers if states[n].state != "running"}
    places = [_Place(gpu) for gpu in gpus] or [_Place(None)]
    local = _Local(batch, states, on_progress, places)
    with signals_noted() as received:
        local.received = received
        _await_others(local)
        queue = iter(numbers)
        while not _is_over(local, queue):
            time.sleep(_POLL_S)
    on_progress(local.states, "")
    return received[0] if received else None


def _await_others(local: _Local) -> None:
    """Wait for runs that a batch started which is no more: two at a time would spoil both their times."""
    while not local.received:
        local.states |= {n: look(s.folder, n) for n, s in local.states.items() if s.state == "running"}
        others = [str(n) for n, state in local.states.items() if state.state == "running"]
        if not others:
            return
        local.on_progress(local.states, f"waiting for run {', '.join(others)}, begun before")
        time.sleep(_POLL_OTHERS_S)


def _is_over(local: _Local, queue: Iterator[int]) -> bool:
    """Take the ended runs down, pass signals on, start what there is a place for."""
    if len(local.received) > local.forwarded:
        local.forwarded = len(local.received)
        for place in local.places:
            if place.process:
                place.process.send_signal(local.received[-1])
    for place in local.places:
        if place.process and place.process.poll() is not None:
            place.process = None
            _tell(local, look(local.batch.run_folder(place.number), place.number))
        if not place.process and not local.received and (number := next(queue, 0)):
            place.number, place.process = number, _start(local.batch, number, place.gpu)
            _tell(local, RunState(number, local.batch.run_folder(number), "running"))
    return not any(place.process for place in local.places)


def _tell(local: _Local, state: RunState) -> None:
    local.states[state.number] = state
    local.on_progress(local.states, "")


def _start(batch: Batch, number: int, gpu: str | None) -> subprocess.Popen[bytes]:
    folder = batch.run_folder(number)
    environment = {**os.environ, **({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})}
    with os.fdopen(existing(folder).open(TASK_LOG), "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "nsyswrap", "run-folder", str(folder.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # a Ctrl-C reaches it once, through us
        )
