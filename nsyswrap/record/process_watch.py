"""Wait for one process: pass on our first signal, limit its time, and end what it leaves running.

``guard`` has a copy of this in small, as it runs beside us and imports nothing of ours.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from nsyswrap.base.files import ENDING
from nsyswrap.record import guard

POLL_S = 0.05
REPEAT_S = 2  # launchers and shells signal twice: only a later second signal is the user's
LEAVE_S = 5  # processes that the watched one leaves running get this long to end by themselves
IN_JOB = "SLURM_JOB_ID"
_noted: list[list[signal.Signals]] = []  # of the block of signals_noted that we are in


@dataclass
class ProcessWatch:
    """Waits for ``process``, whose run ``members`` finds.

    ``stop`` requests its end. It is called with the first of the signals in ``received``, and with SIGTERM
    after ``timeout_s`` seconds (None: never) or once ``has_failed``, unless the end was requested before.
    What has not ended ``patience_s`` seconds later is killed, at once by a later second signal. ``on_poll``
    is called in each round, ``on_signal`` after the first signal. ``pause`` waits so many seconds at most.

    ``since_s``: the time since the end was requested, in seconds; below 0 if it was not. ``timed_out``: it
    was requested for the time limit. ``killed``: the run was killed.
    """

    process: subprocess.Popen[bytes]
    members: guard.RunProcesses
    received: Sequence[signal.Signals]
    timeout_s: float | None
    stop: Callable[[signal.Signals], None] = lambda _: None
    on_poll: Callable[[], None] = lambda: None
    on_signal: Callable[[], None] = lambda: None
    has_failed: Callable[[], bool] = lambda: False
    pause: Callable[[float], None] = time.sleep
    patience_s: float = math.inf
    since_s: float = -1
    timed_out: bool = False
    killed: bool = False
    _stopping_since: float = math.inf
    _signalled_at: float = math.inf
    _handled: int = 0  # signals
    _looked_at: float = -math.inf

    def wait(self) -> None:
        """Wait until the process has ended."""
        now = time.monotonic()
        deadline = now + (math.inf if self.timeout_s is None else self.timeout_s)
        while self.process.poll() is None:  # after the look at the clock: what has ended was in time
            self._pass_on_signals(now)
            if self._stopping_since > now and (now > deadline or self.has_failed()):
                self.timed_out = now > deadline
                self._request(signal.SIGTERM, now)
            self.since_s = max(-1, now - self._stopping_since)
            self.on_poll()
            if self.since_s > self.patience_s:
                self.kill()
            self.pause(POLL_S)
            now = time.monotonic()
        if self.received and not self._handled:  # it reached the process as well, which ended at once
            self.on_signal()

    def kill(self) -> None:
        """Kill all processes of the run."""
        guard.kill([*self.members.living(), self.process.pid])
        self.killed = True

    def drain(self, leave_s: float, is_busy: Callable[[list[int]], bool] = lambda _: False) -> None:
        """Kill what is left of the run, ``leave_s`` seconds from now, or later once it is not busy any more.

        ``is_busy`` gets what is left in each round.
        """
        deadline = time.monotonic() + leave_s
        while (left := self.members.living()) and (is_busy(left) or time.monotonic() < deadline):
            time.sleep(POLL_S)
        guard.kill(self.members.living())

    def _request(self, number: signal.Signals, now: float) -> None:
        self._stopping_since = min(self._stopping_since, now)
        self.stop(number)

    def _pass_on_signals(self, now: float) -> None:
        """Pass on the first signal. A later one kills; Slurm repeats SIGTERM by itself before its SIGKILL.

        On a busy machine a round takes seconds: a signal is later if it came after a round that was.
        """
        new = self.received[self._handled :]
        if new and not self._handled:
            self._signalled_at = now
            self._request(new[0], now)
            self.on_signal()
        elif self._looked_at > self._signalled_at + REPEAT_S and any(map(_is_of_user, new)):
            self.kill()
        self._handled, self._looked_at = self._handled + len(new), now


def _is_of_user(number: signal.Signals) -> bool:
    return number is not signal.SIGTERM or IN_JOB not in os.environ


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

    taken = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in taken}
    _noted.append(received)
    try:
        yield received
    finally:
        _noted.pop()
        for number, handler in before.items():
            signal.signal(number, handler)
