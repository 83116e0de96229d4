"""Watch a running nsys: show its progress, forward signals, limit its time, end its processes."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nsyswrap.base import paths
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys import command
from nsyswrap.base.temporary import ENDING
from nsyswrap.record import exec_program, guard

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from types import FrameType

    from nsyswrap.base.run_facts import GpuUser

with lazy_imports():  # used when nsys runs
    from nsyswrap.record import gpu_users

POLL_S = 0.05
START_S = 5  # nsys is killed if it has not started the program for so long after a signal
LATE_S = 30  # a program that has not started by then is reported
OTHERS_S = 1  # processes that the program started in other groups are signalled this long after it
STOP_PROGRAM_S = 5  # a program that ignores its signal is killed after this, so that nsys can write
STOP_IN_JOB_S = guard.STOP_PROGRAM_S  # the same in a job, whose program Slurm has signalled
REPEAT_S = 2  # launchers and shells signal twice: only a later second signal is the user's
ALONE_S = 1.5  # Slurm signals all processes of a job: a program that ends by then gets no second signal
LEAVE_S = 5  # nsys' helper processes get this long to end by themselves
_LOOK_S = 1.0
_TAIL_BYTES = 4096
_REPORT_BYTES = 64
_IN_JOB = "SLURM_JOB_ID"
_noted: list[list[signal.Signals]] = []  # of the block of signals_noted that we are in
_FORWARDED = {number: signal.SIGTERM if number is signal.SIGHUP else number for number in ENDING}


@dataclass(frozen=True)
class Ending:
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

    ``process`` is nsys, with ``guard.MARK=token`` in its environment and its output in ``log``. ``started``
    is a descriptor on which the launcher reports the start; ``report`` is what was read of it. ``received``
    is the list that ``signals_noted`` fills. ``on_progress`` gets messages on what nsys does, and ``late`` if
    the program does not start. An OSError of a callback is ignored: the terminal is gone, and the run goes
    on. ``on_start`` is called when the program has started, ``on_writing`` (more than once) when nsys writes
    its report. ``pause`` waits for at most so many seconds.
    """

    process: subprocess.Popen[bytes]
    token: str
    log: Path
    started: int
    received: list[signal.Signals]
    on_progress: Callable[[str], None]
    on_signal: Callable[[], None] = lambda: None
    late: str = ""
    on_start: Callable[[], None] = lambda: None
    on_writing: Callable[[], None] = lambda: None
    pause: Callable[[float], None] = time.sleep
    report: bytes = b""
    _stopping_since: float | None = None
    _signalled_at: float = 0.0
    _printed_bytes: int = 0
    _printed_at: float = 0.0
    _pending: signal.Signals | None = None
    _signalled: set[int] = field(default_factory=set)  # processes of the program
    _delivered_at: float | None = None
    _program: int | None = None  # its process, which leads its group
    _has_ended: bool = False  # the program's process
    _fault: Literal["", "missed_end", "hung"] = ""
    _looked_at: float = 0.0
    _not_before: float = 0.0
    _began: float = field(default_factory=time.monotonic)
    _started_at: float | None = None
    _run: guard.Members = field(init=False)
    _watch: guard.Watch = field(init=False)
    _gpu_users: gpu_users.GpuUsers = field(init=False)

    def __post_init__(self) -> None:
        self._run = guard.Members(self.token)
        self._watch = guard.Watch(self.log.parent)
        self._gpu_users = gpu_users.GpuUsers(self.token)

    def wait(self, timeout_s: float | None, *, leave_program: bool = False) -> Ending:
        """Wait until nsys has ended. After ``timeout_s`` seconds (None: never) it is stopped.

        ``leave_program``: processes that outlive nsys are left running.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        timed_out = killed = False
        handled = 0
        message = ""
        while self.process.poll() is None:
            if len(self.received) > handled:
                killed |= self._forward(again=handled > 0)
                if not handled:
                    self._tell_signal()
                handled = len(self.received)
            is_late = deadline is not None and time.monotonic() > deadline
            if is_late and self._stopping_since is None:
                timed_out = True
                self._stop(signal.SIGTERM)
            self._deliver()
            killed |= self._enforce_limits()
            message = self._show_progress(message)
            self._gpu_users.look()
            self.pause(POLL_S)
        if self.received and not handled:  # it reached nsys as well, which ended at once
            self._tell_signal()
        if not leave_program:
            self._end_leftovers()
        first = self.received[0] if self.received else None
        users = tuple(self._gpu_users.users)
        return Ending(self.process.returncode, first, timed_out, killed, users, self._fault)

    def _tell_signal(self) -> None:
        with suppress(OSError):
            self.on_signal()

    def _forward(self, *, again: bool) -> bool:
        """Forward a signal to the program; nsys then writes its report. A late second one kills.

        Returns True if the run was killed. Slurm repeats SIGTERM by itself before its SIGKILL, so in a job a
        second SIGTERM does not kill.
        """
        if again:
            repeated = time.monotonic() < self._signalled_at + REPEAT_S
            if repeated or (_IN_JOB in os.environ and self.received[-1] is signal.SIGTERM):
                return False
            guard.kill(self._members())
            return True
        self._signalled_at = time.monotonic()
        self._stop(_FORWARDED[self.received[-1]])
        return False

    def _stop(self, number: signal.Signals) -> None:
        """Request the end of the program."""
        self._stopping_since = self._stopping_since or time.monotonic()
        self._pending = number
        self._not_before = time.monotonic() + (ALONE_S if _IN_JOB in os.environ else 0)

    def _deliver(self) -> None:
        """Send the program the pending signal as soon as there is a program.

        nsys is not signalled: it would destroy the report that it may be importing. It writes the report at
        the end of the program.
        """
        now = time.monotonic()
        if self._started_at is None and select.select([self.started], [], [], 0)[0]:
            self._started_at = now
            self._note_program()
            self.on_start()
        if self._pending is None or now < self._not_before or self._started_at is None:
            return
        own = [pid for pid in self._members() if _group_of(pid) == self._program and self._is_program(pid)]
        guard.signal_all(own, self._pending)
        self._signalled |= set(own)
        self._pending, self._delivered_at = None, now

    def _note_program(self) -> None:
        """Read the launcher's report, which has the process id of the program."""
        self.report = os.read(self.started, _REPORT_BYTES)
        words = self.report.removeprefix(exec_program.STARTED).split()
        self._program = int(words[0]) if words else None

    def _enforce_limits(self) -> bool:
        """Kill what does not end in time; return True if nsys was killed."""
        if not os.access(self.log, os.F_OK) and not any(map(self._is_program, self._members())):
            guard.kill(self._members())  # without its temporary folder nsys would wait forever
            return True
        if self._is_hung():
            self.process.kill()  # its agent then completes the recording
            return True
        if self._stopping_since is None:
            return False
        now = time.monotonic()
        not_started = self._started_at is None and now > self._stopping_since + START_S
        if not_started or now - max(self._stopping_since, self._printed_at) > guard.STOP_NSYS_S:
            guard.kill(self._members())
            return True
        limit_s = STOP_IN_JOB_S if _IN_JOB in os.environ else STOP_PROGRAM_S
        for pid in self._members():
            if now > self._stopping_since + limit_s and self._is_program(pid):
                guard.kill([pid])
            elif _is_stopped(pid):  # it cannot handle the signal
                guard.signal_all([pid], signal.SIGCONT)
            elif self._delivered_at is not None and now > self._delivered_at + OTHERS_S:
                self._end_other(pid)
        return False

    def _end_other(self, pid: int) -> None:
        """Signal a process that the program started, in another group or since the signal."""
        if pid not in self._signalled and self._is_program(pid):
            self._signalled.add(pid)
            guard.signal_all([pid], signal.SIGTERM)

    def _is_hung(self) -> bool:
        """Return True if nsys does nothing any more. If it missed the program's end, make it write first."""
        now = time.monotonic()
        if now < self._looked_at + _LOOK_S or not (self._started_at is None or self._program_has_ended()):
            return False
        self._looked_at = now
        members = self._members()
        programs = list(filter(self._is_program, members))
        idle_s = self._watch.restart() if programs else self._watch.idle_s(members)
        if self._fault:
            return idle_s > guard.ANSWER_S
        if self._started_at is not None and guard.misses_end(members, programs, self._log(), idle_s):
            self._fault = "missed_end"
            self._watch.restart()
            self.process.send_signal(signal.SIGQUIT)
        elif idle_s > guard.HUNG_S:
            self._fault = "hung"
        return self._fault == "hung"

    def _program_has_ended(self) -> bool:
        """Return True from the end of the program's first process on."""
        self._has_ended |= self._program is None or not paths.exists(f"/proc/{self._program}")
        return self._has_ended

    def _log(self) -> bytes:
        try:
            return self.log.read_bytes()
        except OSError:
            return b""

    def _show_progress(self, previous: str) -> str:
        """Show what nsys does now, unless it is the ``previous`` message; return it."""
        try:
            with self.log.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, min(size - _TAIL_BYTES, self._printed_bytes)))
                tail = file.read()
        except OSError:
            return previous
        if guard.WRITING in tail:
            self.on_writing()
        now = command.progress(tail.decode(errors="replace"))
        if size != self._printed_bytes:
            self._printed_bytes, self._printed_at = size, time.monotonic()
        if not now and self._started_at is None and time.monotonic() > self._began + LATE_S:
            now = self.late
        if not now and self._stopping_since is not None:
            now = "nsys: ending the recording" if self._program_has_ended() else "ending the program"
        if now != previous:
            self._show(now)
        return now

    def _show(self, message: str) -> None:
        with suppress(OSError):
            self.on_progress(message)

    def _end_leftovers(self) -> None:
        """Wait a moment for nsys' helpers, then kill all remaining processes of the run."""
        deadline = time.monotonic() + LEAVE_S
        while (left := self._members()) and time.monotonic() < deadline:
            if self.received or self._stopping_since is not None or self.process.returncode < 0:
                guard.kill([pid for pid in left if self._is_program(pid)])
            time.sleep(POLL_S)
        guard.kill(self._members())
        self._show("")

    def _members(self) -> list[int]:
        return self._run.living()

    def _is_program(self, pid: int) -> bool:
        return guard.is_program(pid, [self.process.pid])


@contextmanager
def signals_noted() -> Iterator[list[signal.Signals]]:
    """Yield a list that collects SIGINT, SIGTERM and SIGHUP instead of ending this process.

    A signal that is ignored (under nohup, or in the background of a script) stays ignored. Outside the main
    thread Python cannot set handlers, so nothing changes there. Inside another such block the list is that
    one's: a signal that came before is not lost.
    """
    received: list[signal.Signals] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    if _noted:
        yield _noted[-1]
        return

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(signal.Signals(number))

    taken = [number for number in _FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in taken}
    _noted.append(received)
    try:
        yield received
    finally:
        _noted.pop()
        for number, handler in before.items():
            signal.signal(number, handler)


def _group_of(pid: int) -> int:
    """Return the process group of a process; -1 if it has ended."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def _is_stopped(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] == b"T"
