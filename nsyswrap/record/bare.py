"""Run a program without nsys, as it runs under nsys, to see what profiling costs."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import closing, suppress

from nsyswrap.base.run_facts import BareRun
from nsyswrap.base.run_folder import RunFolder, Status
from nsyswrap.record import guard, outcome
from nsyswrap.record.private_folders import private_folders
from nsyswrap.record.process_watch import ProcessWatch, signals_noted
from nsyswrap.record.program import ProgramTime, RunSpec
from nsyswrap.record.run import descriptors, launched
from nsyswrap.record.supervisor import STOP_PROGRAM_S


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
