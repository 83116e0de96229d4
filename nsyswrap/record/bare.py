"""Run a program without nsys, as it runs under nsys, to see what profiling costs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import closing, suppress

from nsyswrap.base.run_facts import BareRun
from nsyswrap.base.run_folder import RunFolder, Status
from nsyswrap.record import guard, outcome
from nsyswrap.record.private_folders import private_folders
from nsyswrap.record.program import ProgramTime, RunSpec
from nsyswrap.record.run import descriptors, launched
from nsyswrap.record.supervisor import POLL_S, REPEAT_S, STOP_PROGRAM_S, signals_noted


def run_bare(spec: RunSpec) -> tuple[Status, BareRun]:
    """Run the program of ``spec`` with its environment, streams and time limit, but without nsys.

    Return how it ended, and its time. The run folder is neither made nor changed.
    Raises OutputError if no temporary folder can be made.
    """
    place = outcome.temporary_place(spec.options.env)
    with private_folders(RunFolder(spec.output), place) as private, private.guarded():
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
        members = guard.Members(token)
        timed_out = _wait(process, timed, received, spec.options.timeout_s, members)
        for _ in ("start", "exit"):  # a short program has ended before these were noted
            timed.pause(0)
        guard.kill(members.living())
        return _status(spec, process.returncode, received, timed_out=timed_out), timed.seconds


def _wait(
    process: subprocess.Popen[bytes],
    timed: ProgramTime,
    received: list[signal.Signals],
    timeout_s: float | None,
    members: guard.Members,
) -> bool:
    """Wait until the program has ended; forward one signal to it. Return True if its time was over."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    stopped_at, timed_out, handled = None, False, 0
    while process.poll() is None:
        now = time.monotonic()
        if stopped_at is None or now < stopped_at + REPEAT_S:
            handled = len(received)
        if stopped_at is None:
            timed_out = not received and deadline is not None and now > deadline
            if received or timed_out:
                stopped_at = now
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, received[0] if received else signal.SIGTERM)
        elif now > stopped_at + STOP_PROGRAM_S or len(received) > handled:
            guard.kill(members.living())
        timed.pause(POLL_S)
    return timed_out


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
