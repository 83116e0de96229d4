"""Run a command without nsys: it ends with this process, at a signal, and at a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress

from nsyswrap.base.records import dataclass
from nsyswrap.base.run_facts import BareRun
from nsyswrap.base.run_folder import RunFolder, Status
from nsyswrap.record import guard, outcome
from nsyswrap.record.private_folders import private_folders, start_command_guard
from nsyswrap.record.process_watch import LEAVE_S, ProcessWatch, signals_noted
from nsyswrap.record.program import ProgramTime, RunSpec
from nsyswrap.record.run import descriptors, launched
from nsyswrap.record.supervisor import STOP_PROGRAM_S

STOP_S = 330  # what is left is killed this long after the first signal: large reports take minutes


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended: its exit code as a shell has it, and the first signal that we received."""

    code: int
    signal: signal.Signals | None
    timed_out: bool


@dataclass(frozen=True)
class AttachedCommand:
    """A command line with its environment and the descriptors of its stdout and stderr.

    ``stop`` makes its process end: it is called often from then on, with the seconds since the first call.
    ``timeout_s`` limits the command, in seconds. It is also stopped if ``has_failed`` returns True. With
    ``has_input`` its stdin is a pipe, else empty. ``ends_all``: the command ends what it has started.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    streams: tuple[int, int]
    timeout_s: float | None
    stop: Callable[[subprocess.Popen[bytes], float], None]
    has_failed: Callable[[], bool] = lambda: False
    has_input: bool = False
    ends_all: bool = False


def run(
    command: AttachedCommand, received: Sequence[signal.Signals], on_signal: Callable[[], None]
) -> CommandEnd:
    """Run a command until it has ended. ``received`` collects our signals.

    At the first of these, or after its time, it is stopped. What has not ended in time is killed, at once by
    a later second signal. ``on_signal`` is called after the first one.
    """
    token = uuid.uuid4().hex
    with nullcontext() if command.ends_all else guarded(token) as note:
        process = subprocess.Popen(
            guard.bound_to_us(command.argv),
            stdin=subprocess.PIPE if command.has_input else subprocess.DEVNULL,
            stdout=command.streams[0],
            stderr=command.streams[1],
            env={**command.env, guard.MARK: token},
            start_new_session=True,  # a Ctrl-C reaches it once, through us
        )
        if note:
            note(b"%d" % process.pid)
        watch = ProcessWatch(
            process, guard.RunProcesses(token), received, command.timeout_s, patience_s=STOP_S
        )
        watch.on_signal, watch.has_failed = on_signal, command.has_failed
        watch.on_poll = lambda: command.stop(process, watch.since_s) if watch.since_s >= 0 else None
        watch.wait()
        if process.stdin:
            process.stdin.close()
        watch.drain(0 if watch.since_s >= 0 else LEAVE_S)
    code = process.returncode
    return CommandEnd(128 - code if code < 0 else code, received[0] if received else None, watch.timed_out)


@contextmanager
def guarded(token: str) -> Iterator[Callable[[bytes], None]]:
    """Run a guard that ends the processes with this mark if we are killed. Yield what tells it their ids."""
    with start_command_guard(token) as process:

        def note(word: bytes) -> None:
            with suppress(BrokenPipeError):  # the guard was killed
                if process.stdin:
                    process.stdin.write(word + b"\n")

        yield note
        note(guard.DONE)


# Run a program without nsys, as it runs under nsys, to see what profiling costs.


def run_bare(spec: RunSpec) -> tuple[Status, BareRun]:
    """Run the program of ``spec`` with its environment, streams and time limit, but without nsys.

    Return how it ended, and its time. The run folder is neither made nor changed.
    Raises OutputError if no temporary folder can be made.
    """
    parent = outcome.temporary_place(spec.options.env)
    with private_folders(RunFolder(spec.output), parent) as private, private.guarded():
        status, program_s = _run(spec, private.token)
    return status, BareRun(status.exit_code, program_s)


def _run(spec: RunSpec, token: str) -> tuple[Status, float | None]:
    """Run the program, and end what is left of it. Return its duration in s, too."""
    with signals_noted() as received, descriptors(spec) as own, closing(ProgramTime()) as timed:
        process = subprocess.Popen(
            launched(spec.program, (*own, timed.writer)),
            stdin=subprocess.DEVNULL,
            env={**os.environ, **spec.options.env, guard.MARK: token},
            pass_fds=(*own, timed.writer),
            start_new_session=True,  # as under nsys
        )
        os.close(timed.writer)
        watch = ProcessWatch(process, guard.RunProcesses(token), received, spec.options.timeout_s)
        watch.stop = lambda number: _signal_group(process.pid, number)
        watch.pause, watch.patience_s = timed.pause, STOP_PROGRAM_S
        watch.wait()
        for _ in ("start", "exit"):  # a short program has ended before these were noted
            timed.pause(0)
        watch.drain(0)
        return _status(spec, process.returncode, received, timed_out=watch.timed_out), timed.seconds


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def _status(spec: RunSpec, code: int, received: list[signal.Signals], *, timed_out: bool) -> Status:
    if received:
        words = f"stopped by {received[0].name} in the run without nsys"
        return Status("interrupted", None, None, 128 + received[0], words)
    if timed_out:
        words = f"the run without nsys was stopped after --timeout {spec.options.timeout_s:g} s"
        return Status("timed_out", None, None, 75, words)
    code = 128 - code if code < 0 else code
    if code:
        words = f"{spec.program.name} ended with exit code {code} without nsys"
        return Status("program_failed", code, None, code, words)
    return Status("done", code, None, 0)
