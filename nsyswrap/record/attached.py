"""Run a command without nsys: it ends with this process, at a signal, and at a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

from nsyswrap.record import guard
from nsyswrap.record.private_folders import start_command_guard

POLL_S = 0.05
STOP_S = 330  # what is left is killed this long after the first signal: large reports take minutes
LEAVE_S = 5  # processes that the command left running get this long
_REPEAT_S = 2  # launchers and shells signal twice: only a later second signal is the user's
_IN_JOB = "SLURM_JOB_ID"


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code as a shell has it, and the first signal that we received."""

    code: int
    signal: signal.Signals | None
    timed_out: bool


@dataclass(frozen=True)
class Command:
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


def run(command: Command, received: Sequence[signal.Signals], on_signal: Callable[[], None]) -> Ended:
    """Run a command until it has ended. ``received`` collects our signals.

    At the first of these, or after its time, it is stopped. What has not ended in time is killed, at once by
    a later second signal. ``on_signal`` is called after the first one.
    """
    token = uuid.uuid4().hex
    with nullcontext() if command.ends_all else _guarded(token) as note:
        return _run(command, token, received, on_signal, note)


@contextmanager
def _guarded(token: str) -> Iterator[Callable[[bytes], None]]:
    """Run a guard that ends the processes with this mark if we are killed. Yield what tells it their ids."""
    with start_command_guard(token) as process:

        def note(word: bytes) -> None:
            with suppress(BrokenPipeError):  # the guard was killed
                if process.stdin:
                    process.stdin.write(word + b"\n")

        yield note
        note(guard.DONE)


def _run(
    command: Command,
    token: str,
    received: Sequence[signal.Signals],
    on_signal: Callable[[], None],
    note: Callable[[bytes], None] | None,
) -> Ended:
    members = guard.Members(token)
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
    deadline = None if command.timeout_s is None else time.monotonic() + command.timeout_s
    stopped_at: float | None = None
    timed_out, signalled_at, handled = False, 0.0, 0
    while process.poll() is None:
        now = time.monotonic()
        is_late = deadline is not None and now > deadline
        if stopped_at is None and (received or is_late or command.has_failed()):
            timed_out, stopped_at = is_late and not received, now
        if received and not handled:
            signalled_at = now
            on_signal()
        if stopped_at is not None:
            command.stop(process, now - stopped_at)
            if now < signalled_at + _REPEAT_S:
                handled = len(received)
            if now > stopped_at + STOP_S or _has_later(received[handled:]):
                guard.kill([*members.living(), process.pid])
        time.sleep(POLL_S)
    if received and not handled:  # it reached the process as well, which ended at once
        on_signal()
    if process.stdin:
        process.stdin.close()
    _end_leftovers(members, at_once=stopped_at is not None)
    code = process.returncode
    return Ended(128 - code if code < 0 else code, received[0] if received else None, timed_out)


def _has_later(received: Sequence[signal.Signals]) -> bool:
    """Return True if one of the later signals is the user's. Slurm repeats SIGTERM by itself."""
    return any(one is not signal.SIGTERM or _IN_JOB not in os.environ for one in received)


def _end_leftovers(members: guard.Members, *, at_once: bool) -> None:
    deadline = time.monotonic() + (0 if at_once else LEAVE_S)
    while (left := members.living()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    guard.kill(left)
