"""Watch a running nsys: show its progress, forward signals, limit its time, end its processes.

``ProcessWatch`` has the loop, the deadline and the signals. Every ``POLL_S`` it calls ``_poll``, which does
what is special to nsys, in this order: deliver a signal that waits for the program, end what does not end in
time, show the progress, note who uses the GPU. After a signal or the time limit:

1. ``_stop`` keeps the signal; ``_deliver`` sends it to the program, never to nsys, which would lose its
   report
2. after ``OTHERS_S`` processes in other groups get SIGTERM
3. after ``STOP_PROGRAM_S`` what is left of the program is killed, so that nsys writes its report
4. nsys is killed if it has not started the program within ``START_S``, or once it has printed nothing for
   ``guard.STOP_NSYS_S``; at any time if its log and the program are gone

``_is_hung`` knows two faults of nsys without any signal: see ``NsysEnd.fault``.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nsyswrap.base import paths
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys import command
from nsyswrap.base.records import dataclass
from nsyswrap.record import guard
from nsyswrap.record.process_watch import IN_JOB, LEAVE_S, ProcessWatch

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from nsyswrap.base.run_facts import GpuUser
    from nsyswrap.record.program import ProgramTime

with lazy_imports():  # used when nsys runs
    from nsyswrap.record import gpu_users

START_S = 5  # nsys is killed if it has not started the program for so long after a signal
LATE_S = 30  # a program that has not started by then is reported
OTHERS_S = 1  # processes that the program started in other groups are signalled this long after it
STOP_PROGRAM_S = 5  # a program that ignores its signal is killed after this, so that nsys can write
STOP_IN_JOB_S = guard.STOP_PROGRAM_S  # the same in a job, whose program Slurm has signalled
ALONE_S = 1.5  # Slurm signals all processes of a job: a program that ends by then gets no second signal
_LOOK_S = 1.0
_PAUSE_S = 3  # an agent that does nothing for so long has completed its recording
_TAIL_BYTES = 4096


@dataclass(frozen=True)
class NsysEnd:
    """How nsys ended: its exit code (negative: a signal), and the first signal that we received.

    ``timed_out``: the run reached its time limit. ``killed``: we killed nsys. ``fault``: nsys did not notice
    that the program had ended (``missed_end``), or did nothing any more (``hung``). ``gpu_users``: the
    processes that used CUDA.
    """

    code: int
    signal: signal.Signals | None
    timed_out: bool
    killed: bool
    gpu_users: tuple[GpuUser, ...] = ()
    fault: Literal["", "missed_end", "hung"] = ""


@dataclass
class Supervisor:
    """Waits for one nsys. It finds all processes of the run by a mark in their environment.

    ``process`` is nsys, with ``guard.MARK=token`` in its environment and its output in ``log``. ``timed``
    knows when the program starts and ends. ``received`` is the list that ``signals_noted`` fills.
    ``on_progress`` gets messages on what nsys does, and ``late`` if the program does not start. An OSError of
    a callback is ignored: the terminal is gone, and the run goes on. ``on_start`` is called when the program
    has started, ``on_writing`` (more than once) when nsys writes its report.
    """

    process: subprocess.Popen[bytes]
    token: str
    log: Path
    timed: ProgramTime
    received: list[signal.Signals]
    on_progress: Callable[[str], None]
    on_signal: Callable[[], None] = lambda: None
    late: str = ""
    on_start: Callable[[], None] = lambda: None
    on_writing: Callable[[], None] = lambda: None
    _printed_bytes: int = 0
    _printed_at: float = 0.0
    _pending: signal.Signals | None = None
    _signalled: set[int] = field(default_factory=set)  # processes of the program
    _delivered_at: float | None = None
    _has_ended: bool = False  # the program's process
    _fault: Literal["", "missed_end", "hung"] = ""
    _looked_at: float = 0.0
    _not_before: float = 0.0
    _message: str = ""
    _left_at: float = 0.0
    _began: float = field(default_factory=time.monotonic)
    _has_started: bool = False
    _run: guard.RunProcesses = field(init=False)
    _idleness: guard.IdleWatch = field(init=False)
    _watch: ProcessWatch = field(init=False)
    _gpu_users: gpu_users.GpuUsers = field(init=False)

    def __post_init__(self) -> None:
        self._run = guard.RunProcesses(self.token)
        self._idleness = guard.IdleWatch(self.log.parent)
        self._gpu_users = gpu_users.GpuUsers(self.token)

    def wait(self, timeout_s: float | None, *, leave_program: bool = False) -> NsysEnd:
        """Wait until nsys has ended. After ``timeout_s`` seconds (None: never) it is stopped.

        ``leave_program``: processes that outlive nsys are left running.
        """
        watch = ProcessWatch(self.process, self._run, self.received, timeout_s, self._stop, self._poll)
        watch.on_signal, watch.pause, self._watch = self._tell_signal, self.timed.pause, watch
        watch.wait()
        if not leave_program:
            self._left_at = time.monotonic()
            watch.drain(LEAVE_S, self._end_leftovers)
            self._show("")
        first = self.received[0] if self.received else None
        users = tuple(self._gpu_users.users)
        return NsysEnd(self.process.returncode, first, watch.timed_out, watch.killed, users, self._fault)

    def _poll(self) -> None:
        self._deliver()
        self._enforce_limits()
        self._show_progress()
        self._gpu_users.update()

    def _tell_signal(self) -> None:
        with suppress(OSError):
            self.on_signal()

    def _stop(self, number: signal.Signals) -> None:
        """Request the end of the program. nsys then writes its report."""
        self._pending = signal.SIGTERM if number is signal.SIGHUP else number
        self._not_before = time.monotonic() + (ALONE_S if IN_JOB in os.environ else 0)

    def _deliver(self) -> None:
        """Send the program the pending signal as soon as there is a program.

        nsys is not signalled: it would destroy the report that it may be importing. It writes the report at
        the end of the program.
        """
        now = time.monotonic()
        if self.timed.has_started and not self._has_started:
            self._has_started = True
            self.on_start()
        if self._pending is None or now < self._not_before or not self._has_started:
            return
        own = [pid for pid in self._members() if _group_of(pid) == self.timed.pid and self._is_program(pid)]
        guard.signal_all(own, self._pending)
        self._signalled |= set(own)
        self._pending, self._delivered_at = None, now

    def _enforce_limits(self) -> None:
        if not os.access(self.log, os.F_OK) and not any(map(self._is_program, self._members())):
            self._watch.kill()  # without its temporary folder nsys would wait forever
        elif self._is_hung():
            self.process.kill()  # its agent then completes the recording
            self._watch.killed = True
        elif self._watch.since_s >= 0:
            self._end_program(self._watch.since_s)

    def _end_program(self, since_s: float) -> None:
        now = time.monotonic()
        not_started = not self._has_started and since_s > START_S
        if not_started or min(since_s, now - self._printed_at) > guard.STOP_NSYS_S:
            self._watch.kill()
            return
        limit_s = STOP_IN_JOB_S if IN_JOB in os.environ else STOP_PROGRAM_S
        for pid in self._members():
            if since_s > limit_s and self._is_program(pid):
                guard.kill([pid])
            elif guard.state(Path(f"/proc/{pid}")) == b"T":  # stopped: it cannot handle the signal
                guard.signal_all([pid], signal.SIGCONT)
            elif self._delivered_at is None or now <= self._delivered_at + OTHERS_S:
                continue
            elif pid not in self._signalled and self._is_program(pid):  # of another group, or a new one
                self._signalled.add(pid)
                guard.signal_all([pid], signal.SIGTERM)

    def _is_hung(self) -> bool:
        """Return True if nsys does nothing any more. If it missed the program's end, make it write first."""
        now = time.monotonic()
        if now < self._looked_at + _LOOK_S or not (not self._has_started or self._program_has_ended()):
            return False
        self._looked_at = now
        members = self._members()
        programs = list(filter(self._is_program, members))
        idle_s = self._idleness.restart() if programs else self._idleness.idle_s(members)
        if self._fault:
            return idle_s > guard.ANSWER_S
        if self._has_started and guard.misses_end(members, programs, self._log(), idle_s):
            self._fault = "missed_end"
            self._idleness.restart()
            self.process.send_signal(signal.SIGQUIT)
        elif idle_s > guard.HUNG_S:
            self._fault = "hung"
        return self._fault == "hung"

    def _program_has_ended(self) -> bool:
        self._has_ended |= self.timed.pid is None or not paths.exists(f"/proc/{self.timed.pid}")
        return self._has_ended

    def _log(self) -> bytes:
        try:
            return self.log.read_bytes()
        except OSError:
            return b""

    def _show_progress(self) -> None:
        try:
            with self.log.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, min(size - _TAIL_BYTES, self._printed_bytes)))
                tail = file.read()
        except OSError:
            return
        if guard.WRITING in tail:
            self.on_writing()
        now = command.progress(tail.decode(errors="replace"))
        if size != self._printed_bytes:
            self._printed_bytes, self._printed_at = size, time.monotonic()
        if not now and not self._has_started and time.monotonic() > self._began + LATE_S:
            now = self.late
        if not now and self._watch.since_s >= 0:
            now = "nsys: ending the recording" if self._program_has_ended() else "ending the program"
        if now != self._message:
            self._message = now
            self._show(now)

    def _show(self, message: str) -> None:
        with suppress(OSError):
            self.on_progress(message)

    def _end_leftovers(self, left: list[int]) -> bool:
        """End what is left of the program, unless nsys ended by itself. Return True if its agent is busy.

        When nsys has died or has lost its agent, the agent completes the recording. It can wait for a CPU.
        """
        programs = [pid for pid in left if self._is_program(pid)]
        if self.received or self._watch.since_s >= 0 or self.process.returncode < 0:
            guard.kill(programs)
        idle_s = self._idleness.idle_s(left)
        return not programs and idle_s < _PAUSE_S and time.monotonic() < self._left_at + guard.STOP_NSYS_S

    def _members(self) -> list[int]:
        return self._run.living()

    def _is_program(self, pid: int) -> bool:
        return guard.is_program(pid, [self.process.pid])


def _group_of(pid: int) -> int:
    """Return the process group of a process; -1 if it has ended."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1
