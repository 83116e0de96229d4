"""The executor that runs a batch on this machine: one run at a time, or one on each GPU."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.record.batch.executors import Executor, Interruption, Option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nsyswrap.record.batch.executors import OnProgress, Request
    from nsyswrap.record.batch.folder import Batch, RunState

with lazy_imports():  # --help needs none of these
    from nsyswrap.base import folder_lock, run_folder
    from nsyswrap.base.nsys import find
    from nsyswrap.record import supervisor
    from nsyswrap.record.batch import folder

_POLL_S = 0.05
_POLL_OTHERS_S = 1.0


class _LocalExecutor(Executor):
    options = (
        Option(
            "--gpus",
            "N,N",
            "local: run one at a time on each of these GPUs.",
            refusal="--gpus requires --executor local",
        ),
    )
    advice: ClassVar = {"--max-running": "use --gpus 0,1 for one run on each of these GPUs"}

    def run(self, request: Request, numbers: Sequence[int], on_progress: OnProgress) -> Interruption | None:
        if numbers:
            find.find_nsys()  # raises Unavailable before any run is started
        gpus = [gpu.strip() for gpu in (request.options["gpus"] or "").split(",") if gpu.strip()]
        batch, states = request.batch, request.batch.survey()
        for number in numbers:
            if states[number].state != "running":
                states[number] = folder.RunState(number, states[number].folder, "planned")
        slots = [_Slot(gpu) for gpu in gpus] or [_Slot(None)]
        with supervisor.signals_noted() as received:
            local = _LocalBatch(batch, states, on_progress, slots, received)
            _wait_for_runs_begun_before(local)
            queue = iter(numbers)
            while _step(local, queue):
                time.sleep(_POLL_S)
        on_progress(local.states, "")
        advice = "nsyswrap: the interrupted runs wrote their reports; use the same command to run the rest"
        return Interruption(received[0], advice) if received else None

    def wait(self, batch: Batch, on_progress: OnProgress) -> Interruption | None:
        """Wait for runs that a killed batch left running."""
        states = batch.survey()
        if any(state.claim and state.claim.job for state in states.values() if state.state == "running"):
            return None  # the jobs of a scheduler
        with supervisor.signals_noted() as received:
            local = _LocalBatch(batch, states, on_progress, [], received)
            _wait_for_runs_begun_before(local)
        advice = "nsyswrap: the runs continue; use the same command to wait for them"
        return Interruption(received[0], advice) if received else None

    def cancel(self, batch: Batch) -> int:
        """End runs that a killed batch left running. A living batch ends its own runs."""
        if folder_lock.holder_here(batch.folder):
            return 0
        claims = [
            state.claim for state in batch.survey().values() if state.state == "running" and state.claim
        ]
        pids = [claim.pid for claim in claims if claim.host == socket.gethostname() and not claim.job]
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        return len(pids)


EXECUTOR = _LocalExecutor()


@dataclass
class _Slot:
    """A GPU, or the machine as it is if ``gpu`` is None. It takes one run at a time."""

    gpu: str | None
    number: int = 0
    process: subprocess.Popen[bytes] | None = None


@dataclass
class _LocalBatch:
    batch: Batch
    states: dict[int, RunState]
    on_progress: OnProgress
    slots: list[_Slot]
    received: list[signal.Signals]
    forwarded: int = 0

    def update(self, state: RunState) -> None:
        self.states[state.number] = state
        self.on_progress(self.states, "")


def _wait_for_runs_begun_before(local: _LocalBatch) -> None:
    """Wait for runs that a killed batch left running: two at a time would slow each other down."""
    while not local.received:
        local.states |= {
            n: folder.read_state(s.folder, n) for n, s in local.states.items() if s.state == "running"
        }
        running = [str(n) for n, state in local.states.items() if state.state == "running"]
        if not running:
            return
        local.on_progress(local.states, f"waiting for run {', '.join(running)}, started earlier")
        time.sleep(_POLL_OTHERS_S)


def _step(local: _LocalBatch, queue: Iterator[int]) -> bool:
    """Note ended runs, forward signals, start a run in each free slot. Return True while a run is running."""
    if len(local.received) > local.forwarded:
        local.forwarded = len(local.received)
        for slot in local.slots:
            if slot.process:
                slot.process.send_signal(local.received[-1])
    for slot in local.slots:
        if slot.process and slot.process.poll() is not None:
            slot.process = None
            local.update(folder.read_state(local.batch.run_folder(slot.number), slot.number))
        if not slot.process and not local.received and (number := next(queue, 0)):
            slot.number, slot.process = number, _start(local.batch, number, slot.gpu)
            local.update(folder.RunState(number, local.batch.run_folder(number), "running"))
    return any(slot.process for slot in local.slots)


def _start(batch: Batch, number: int, gpu: str | None) -> subprocess.Popen[bytes]:
    path = batch.run_folder(number)
    environment = {**os.environ, **({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})}
    with os.fdopen(run_folder.existing(path).open(run_folder.TASK_LOG), "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "nsyswrap", "run-folder", str(path.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches the run once, forwarded by this process
        )
