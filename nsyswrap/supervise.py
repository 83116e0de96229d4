"""Watching a running nsys: its progress, our signals, the time limit, and nothing left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from nsyswrap import nsys

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from types import FrameType

POLL_S = 0.05
STOP_PROGRAM_S = 15  # a program that ignores its signal is killed after this, so that nsys can write
STOP_NSYS_S = 300  # and nsys after this
LEAVE_S = 5  # nsys' own helpers get this long to end by themselves
_TAIL_BYTES = 4096
_FORWARDED = {
    signal.SIGINT: signal.SIGINT,
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGHUP: signal.SIGTERM,
}


@dataclass(frozen=True)
class Ending:
    """How nsys ended: its code (negative: a signal), what we were asked, and whether we had to kill it."""

    code: int
    signal: signal.Signals | None
    timed_out: bool
    killed: bool


class Supervisor:
    """Waits for one nsys. Every process of the run carries a mark in its environment: none is overlooked."""

    MARK: ClassVar[str] = "NSYSWRAP_RUN_MARK"

    def __init__(
        self, process: subprocess.Popen[bytes], token: str, log: Path, on_progress: Callable[[str], None]
    ) -> None:
        """Watch ``process``, whose environment holds ``MARK=token`` and which prints into ``log``."""
        self._process = process
        self._mark = f"{self.MARK}={token}".encode()
        self._log = log
        self._on_progress = on_progress
        self._received: list[signal.Signals] = []
        self._stopping_since: float | None = None

    def wait(self, timeout_s: float | None, *, leave_program: bool = False) -> Ending:
        """Wait until nsys has ended; ``leave_program``: what outlives it was meant to."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        timed_out = killed = False
        handled = 0
        shown = ""
        with self._signals_noted():
            while self._process.poll() is None:
                if len(self._received) > handled:
                    killed |= self._forward(again=handled > 0)
                    handled = len(self._received)
                if deadline is not None and time.monotonic() > deadline and not timed_out:
                    timed_out = True
                    self._stop(signal.SIGTERM)
                killed |= self._lose_patience()
                shown = self._show_progress(shown)
                time.sleep(POLL_S)
            if not leave_program:
                self._clear_up()
        first = self._received[0] if self._received else None
        return Ending(self._process.returncode, first, timed_out, killed)

    def _forward(self, *, again: bool) -> bool:
        """Hand a signal on to nsys, which ends the program and writes the report; the second one kills."""
        if again:
            self._kill(self._members())
            return True
        self._stop(_FORWARDED[self._received[-1]])
        return False

    def _stop(self, number: signal.Signals) -> None:
        self._stopping_since = self._stopping_since or time.monotonic()
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _lose_patience(self) -> bool:
        if self._stopping_since is None:
            return False
        waited = time.monotonic() - self._stopping_since
        if waited > STOP_NSYS_S:
            self._kill(self._members())
            return True
        if waited > STOP_PROGRAM_S:
            self._kill([pid for pid in self._members() if not _is_nsys(pid)])
        return False

    def _show_progress(self, shown: str) -> str:
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                now = nsys.progress(file.read().decode(errors="replace"))
        except OSError:
            return shown
        if now != shown:
            self._on_progress(now)
        return now

    def _clear_up(self) -> None:
        """Wait a moment for nsys' helpers, then end whatever is left of the run."""
        deadline = time.monotonic() + LEAVE_S
        while (left := self._members()) and time.monotonic() < deadline:
            if self._received or self._stopping_since is not None or self._process.returncode < 0:
                self._kill([pid for pid in left if not _is_nsys(pid)])
            time.sleep(POLL_S)
        self._kill(self._members())
        self._on_progress("")

    def _members(self) -> list[int]:
        """Every living process of this run, nsys included, by the mark in its environment."""
        return [
            int(path.name) for path in Path("/proc").glob("[0-9]*") if self._mark in _read(path / "environ")
        ]

    @staticmethod
    def _kill(pids: list[int]) -> None:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    @contextmanager
    def _signals_noted(self) -> Iterator[None]:
        """Note the signals that would end us. Outside the main thread Python cannot: defaults stay."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, _frame: FrameType | None) -> None:
            self._received.append(signal.Signals(number))

        before = {number: signal.signal(number, note) for number in _FORWARDED}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _is_nsys(pid: int) -> bool:
    name = _read(Path(f"/proc/{pid}/comm")).strip()
    command = _read(Path(f"/proc/{pid}/cmdline")).split(b"\0", 1)[0]
    return name.startswith((b"nsys", b"QdstrmImporter")) or Path(os.fsdecode(command)).name.startswith("nsys")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
