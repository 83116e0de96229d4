"""The executor that runs a batch on this machine: one run at a time, or as many as there are GPUs for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from nsyswrap.base.errors import Unavailable, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.options import BATCH, OptionSpec
from nsyswrap.base.text import counted
from nsyswrap.record.batch.executors import EMPTY_ADVICE, Executor, Interruption

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence

    from nsyswrap.record.batch.executors import BatchRequest, OnProgress

with lazy_imports():  # --help needs none of these
    from nsyswrap.base import files, run_folder
    from nsyswrap.base.nsys import find
    from nsyswrap.record import process_watch
    from nsyswrap.record.batch import folder

_POLL_S = 0.05
_POLL_OTHERS_S = 1.0


class _LocalExecutor(Executor):
    options: ClassVar = {
        "gpus": OptionSpec("--gpus", "local: share these GPUs among the runs.", BATCH, metavar="N,N")
    }
    advice: ClassVar = {"--max-running": "use --gpus 0,1 for one run on each of these GPUs"}

    def run(
        self, request: BatchRequest, numbers: Sequence[int], on_progress: OnProgress
    ) -> Interruption | None:
        if numbers:
            find.find_nsys()  # raises Unavailable before any run is started
        gpus = [gpu.strip() for gpu in (request.options["gpus"] or "").split(",") if gpu.strip()]
        batch, states = request.batch, request.batch.survey()
        for number in numbers:
            if states[number].state != "running":
                states[number] = folder.RunState(number, states[number].folder, "planned")
        needs = {batch.numbers[spec.key]: spec.gpus or 1 for spec in request.plan.specs}
        _check_gpus(gpus, [needs.get(number, 1) for number in numbers])
        with process_watch.signals_noted() as received:
            stop_after = request.plan.stop_after_empty
            to_run = frozenset(numbers)
            local = _LocalBatch(batch, states, on_progress, received, needs, gpus or None, to_run, stop_after)
            _wait_for_runs_begun_before(local)
            queue = deque(numbers)
            while _step(local, queue):
                time.sleep(_POLL_S)
        on_progress(local.states, "")
        if local.empty:
            raise Unavailable(local.empty, EMPTY_ADVICE)
        advice = "nsyswrap: the interrupted runs wrote their reports; use the same command to run the rest"
        return Interruption(received[0], advice) if received else None

    def wait(self, batch: folder.Batch, on_progress: OnProgress) -> Interruption | None:
        states = batch.survey()
        if any(state.claim and state.claim.job for state in states.values() if state.state == "running"):
            return None  # the jobs of a scheduler
        with process_watch.signals_noted() as received:
            local = _LocalBatch(batch, states, on_progress, received)
            _wait_for_runs_begun_before(local)
        advice = "nsyswrap: the runs continue; use the same command to wait for them"
        return Interruption(received[0], advice) if received else None

    def cancel(self, batch: folder.Batch) -> int:
        """End runs that a killed batch left running. A living batch ends its own runs."""
        if files.holder_here(batch.folder):
            return 0
        claims = [
            state.claim for state in batch.survey().values() if state.state == "running" and state.claim
        ]
        pids = [claim.pid for claim in claims if claim.host == socket.gethostname() and not claim.job]
        for pid in pids:
            files.terminate(pid)
        return len(pids)


EXECUTOR = _LocalExecutor()


@dataclass
class _Running:
    """A run at work, and the GPUs that it has; none if it has the machine as it is."""

    number: int
    process: subprocess.Popen[bytes]
    gpus: list[str]


@dataclass
class _LocalBatch:
    """``needs``: how many GPUs each run needs. ``free``: the GPUs without a run; None: not said.

    ``to_run``: the runs to start now. ``stop_after_empty`` is the plan's. ``empty`` is why the batch
    ends, once it does for that.
    """

    batch: folder.Batch
    states: dict[int, folder.RunState]
    on_progress: OnProgress
    received: list[signal.Signals]
    needs: Mapping[int, int] = field(default_factory=dict)
    free: list[str] | None = None
    to_run: frozenset[int] = frozenset()
    stop_after_empty: int | None = None
    empty: str = ""
    running: list[_Running] = field(default_factory=list)
    forwarded: int = 0

    def update(self, state: folder.RunState) -> None:
        self.states[state.number] = state
        self.on_progress(self.states, "")


def _wait_for_runs_begun_before(local: _LocalBatch) -> None:
    """Wait for runs that a killed batch left running: two at a time would slow each other down."""
    while not local.received:
        local.states |= {
            n: folder.read_state(s.folder, n) for n, s in local.states.items() if s.state == "running"
        }
        running = sum(state.state == "running" for state in local.states.values())
        if not running:
            return
        local.on_progress(local.states, f"waiting for {counted(running, 'runs')}, started earlier")
        time.sleep(_POLL_OTHERS_S)


def _check_gpus(gpus: Sequence[str], needs: Sequence[int]) -> None:
    if gpus and max(needs, default=0) > len(gpus):
        raise UsageError(
            f"a run needs {max(needs)} GPUs, and --gpus names {len(gpus)}", "name more GPUs, or omit --gpus"
        )


def _step(local: _LocalBatch, queue: deque[int]) -> bool:
    """Note ended runs, forward signals, start runs where there is room. Return True while one is running."""
    if len(local.received) > local.forwarded:
        local.forwarded = len(local.received)
        for one in local.running:
            one.process.send_signal(local.received[-1])
    for one in [one for one in local.running if one.process.poll() is not None]:
        local.running.remove(one)
        if local.free is not None:
            local.free += one.gpus
        local.update(folder.read_state(local.batch.run_folder(one.number), one.number))
    states = (state for number, state in local.states.items() if number in local.to_run)
    local.empty = folder.without_gpu_work(states, local.stop_after_empty)
    while queue and not (local.received or local.empty) and _has_room(local, queue[0]):
        number = queue.popleft()
        gpus = [local.free.pop(0) for _ in range(local.needs.get(number, 1))] if local.free else []
        local.running.append(_Running(number, _start(local.batch, number, ",".join(gpus)), gpus))
        local.update(folder.RunState(number, local.batch.run_folder(number), "running"))
    return bool(local.running)


def _has_room(local: _LocalBatch, number: int) -> bool:
    """Return True if a run can start. The runs keep their order: none overtakes one that needs more GPUs."""
    return not local.running if local.free is None else len(local.free) >= local.needs.get(number, 1)


def _start(batch: folder.Batch, number: int, gpus: str) -> subprocess.Popen[bytes]:
    path = batch.run_folder(number)
    environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": gpus} if gpus else {})}
    with os.fdopen(run_folder.existing(path).open(run_folder.TASK_LOG), "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "nsyswrap", "run-folder", str(path.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches the run once, forwarded by this process
        )
