"""The script that ends a run whose nsyswrap was killed, and its fork, with processes that play nsys."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import PATIENCE_S, wait_until

from nsyswrap.base.files import LOCK, descriptor_of, is_locked, locked
from nsyswrap.record import guard

PROGRAM = "import os, signal, time; {}print(os.getpid(), flush=True); time.sleep(600)"
DEAF = PROGRAM.format("signal.signal(signal.SIGTERM, signal.SIG_IGN); ")
# nsys: it waits for its program, then imports until a file exists. It exits with the number of its signals.
RECORDS = """
import os, signal, subprocess, sys, time
came = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, lambda *_: came.append(1))
subprocess.call([sys.executable, "-c", sys.argv[1]])
open(sys.argv[2] + "/nsys.log", "w").write("Generating '/report.qdstrm'")
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
sys.exit(len(came))
"""
# It never wakes up: on a busy machine, one that wakes up often waits for a CPU, and so counts as at work.
WAITS = """
import signal, subprocess, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGQUIT})
subprocess.call([sys.executable, "-c", sys.argv[1]])
signal.sigwait({signal.SIGQUIT})
while sys.argv[2] == "deaf":
    signal.sigwait({signal.SIGQUIT})
sys.exit(5)
"""
# A command that ends its program when it gets a signal.
STOPS = """
import os, signal, subprocess, sys, time
came = []
signal.signal(signal.SIGTERM, lambda *_: came.append(1))
program = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
while not came:
    time.sleep(0.01)
program.kill()
os._exit(3)  # Python's own end would be open to another signal
"""
GUARD = """
import sys
from pathlib import Path
from nsyswrap.record import guard
guard.STOP_PROGRAM_S, guard._AGAIN_S, guard._SETTLE_S = int(sys.argv[6]), 0.3, 0.3
guard.IDLE_S, guard.ANSWER_S, guard.HUNG_S = 1.5, 1.5, 600
guard.main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
"""


class Run:
    """A guard and what it guards."""

    def __init__(self, folder: Path, lock: int | None, stem: str, stop_s: int) -> None:
        self.work, self.temporary, token = folder / "work", folder / "temporary", uuid.uuid4().hex
        for path in (self.work, self.temporary):
            path.mkdir()
        words = [sys.executable, "-c", GUARD, token, str(self.work), str(self.temporary), stem]
        self.guard = subprocess.Popen(
            [*words, str(-1 if lock is None else lock), str(stop_s)],
            stdin=subprocess.PIPE,
            bufsize=0,
            pass_fds=() if lock is None else [lock],
        )
        self.marked = {**os.environ, guard.MARK: token}
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> tuple[subprocess.Popen[str], int]:
        """Start a process that plays nsys; return it and the process id of its program."""
        command = [sys.executable, "-c", *words]
        nsys = subprocess.Popen(command, env=self.marked, stdout=subprocess.PIPE, text=True)
        self.started.append(nsys)
        assert nsys.stdout is not None
        program = int(nsys.stdout.readline())
        self.tell(b"%d\n" % nsys.pid)
        return nsys, program

    def tell(self, words: bytes) -> None:
        assert self.guard.stdin is not None
        self.guard.stdin.write(words)

    def forsake(self) -> None:
        """Do what the death of nsyswrap does."""
        assert self.guard.stdin is not None
        self.guard.stdin.close()


@contextmanager
def guarded(folder: Path, lock: int | None = None, stem: str = "report", stop_s: int = 1) -> Iterator[Run]:
    run = Run(folder, lock, stem, stop_s)
    try:
        yield run
    finally:
        run.forsake()
        run.guard.wait(PATIENCE_S)
        for process in run.started:
            process.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("guard_too", [False, True])
def test_a_program_that_ignores_signals_ends_with_nsyswrap(tmp_path: Path, *, guard_too: bool) -> None:
    with guarded(tmp_path) as run:
        nsys, program = run.start(RECORDS, DEAF, str(run.temporary), "/")
        if guard_too:
            wait_until(lambda: len(children(run.guard.pid)) == 1)
            wait_until(lambda: has_told_its_fork(run))
            run.guard.kill()
        run.forsake()
        assert nsys.wait(PATIENCE_S) == 0  # it ended by itself, after its program
        wait_until(lambda: not Path(f"/proc/{program}").exists() and not run.work.exists())


def test_nsys_gets_no_signal_and_has_time_to_import(tmp_path: Path) -> None:
    with guarded(tmp_path) as run:
        imported = tmp_path / "imported"
        nsys, program = run.start(RECORDS, PROGRAM.format(""), str(run.temporary), str(imported))
        run.forsake()
        wait_until(lambda: not Path(f"/proc/{program}").exists())
        time.sleep(2.5)  # longer than one that does nothing gets
        assert nsys.poll() is None
        imported.touch()
        assert nsys.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(("answers", "code"), [("", 5), ("deaf", -signal.SIGKILL)])
def test_an_nsys_that_waits_in_vain_is_asked_to_write(tmp_path: Path, answers: str, code: int) -> None:
    """As if its launcher was killed: nobody tells it that the program has ended."""
    with guarded(tmp_path) as run:
        nsys, _ = run.start(WAITS, PROGRAM.format(""), answers)
        run.forsake()
        assert nsys.wait(PATIENCE_S) == code


def test_what_nsys_left_is_private_and_the_folder_locked_until_then(tmp_path: Path) -> None:
    with locked(tmp_path, "a test"):
        lock = descriptor_of(tmp_path)
        assert lock is not None
        mine = os.dup(lock)  # as nsyswrap dies, its own is closed
        with guarded(tmp_path, lock) as run:
            imported = tmp_path / "imported"
            nsys, _ = run.start(RECORDS, PROGRAM.format(""), str(run.temporary), str(imported))
            (run.temporary / "nsys-report-1.qdstrm").touch(0o664)
            (run.work / "report.nsys-rep").touch(0o664)
            os.close(mine)
            run.forsake()
            wait_until(lambda: (tmp_path / LOCK).read_text().endswith(f", process {run.guard.pid}"))
            assert is_locked(tmp_path)
            assert nsys.poll() is None
            imported.touch()
            nsys.wait(PATIENCE_S)
        assert not (tmp_path / LOCK).exists()
        left = {path.name: path.stat().st_mode & 0o777 for path in run.work.iterdir()}
        assert left == {"report.nsys-rep": 0o600, "report.qdstrm": 0o600}
        assert not run.temporary.exists()


def test_a_command_gets_the_signal_itself(tmp_path: Path) -> None:
    with guarded(tmp_path, stem="", stop_s=PATIENCE_S) as run:
        command, _ = run.start(STOPS, PROGRAM.format(""))
        run.forsake()
        assert command.wait(PATIENCE_S) == 3


def test_a_program_that_its_command_does_not_stop_is_killed(tmp_path: Path) -> None:
    with guarded(tmp_path, stem="") as run:
        command, _ = run.start(RECORDS, DEAF, str(run.temporary), "/")
        run.forsake()
        assert command.wait(PATIENCE_S) >= 0


def test_a_process_that_clears_its_environment_is_known_by_its_start() -> None:
    program = "import os; input(); os.execve('/bin/sleep', ['sleep', '600'], {})"
    mark = uuid.uuid4().hex
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, env={guard.MARK: mark})
    with process:
        try:
            run = guard.RunProcesses(mark)
            wait_until(lambda: run.living() == [process.pid])
            assert process.stdin
            process.stdin.write(b"\n")
            process.stdin.flush()
            wait_until(lambda: not Path(f"/proc/{process.pid}/environ").read_bytes())
            assert run.living() == [process.pid]
        finally:
            process.kill()


def test_what_is_done_leaves_nothing(tmp_path: Path) -> None:
    with guarded(tmp_path) as run:
        wait_until(lambda: len(children(run.guard.pid)) == 1)
        [fork] = children(run.guard.pid)
        run.tell(guard.DONE + b"\n")
        run.forsake()
        assert run.guard.wait(PATIENCE_S) == 0
        assert not Path(f"/proc/{fork}").exists()
        assert run.work.exists()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def has_told_its_fork(run: Run) -> bool:
    """Return True if the guard waits again, after it has read which process is nsys."""
    assert run.guard.stdin is not None
    unread = fcntl.ioctl(run.guard.stdin, termios.FIONREAD, bytes(4))
    return not any(unread) and Path(f"/proc/{run.guard.pid}/stat").read_text().rpartition(") ")[2][0] == "S"


class Machine:
    """What an IdleWatch looks at: the time, one thread of nsys, and the size of its log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.now_s, self.ran_s, self.waited_s, self.bytes, self.state = 100.0, 0.0, 0.0, 0, b"S"
        monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        monkeypatch.setattr(guard, "_children", lambda _: [Path("thread")])
        monkeypatch.setattr(guard, "_busy_ns", lambda _: (int(self.ran_s * 1e9), int(self.waited_s * 1e9)))
        monkeypatch.setattr(guard, "_size", lambda path: self.bytes if path.name == guard.LOG else 0)
        monkeypatch.setattr(guard, "state", lambda _: self.state)
        self.watch = guard.IdleWatch(folder)

    def after(self, seconds: float, *, ran: float = 0, waited: float = 0, wrote: int = 0) -> float:
        """Return for how long nsys is idle, after so many seconds with this work in them."""
        self.now_s += seconds
        self.ran_s, self.waited_s, self.bytes = self.ran_s + ran, self.waited_s + waited, self.bytes + wrote
        return self.watch.idle_s([1])


def test_an_nsys_without_work_is_idle_for_the_time_that_passes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, tmp_path)
    assert machine.after(0.5) == 0  # it looks once a second
    assert machine.after(0.5) == 1
    assert machine.after(1.5, ran=0.05, waited=0.1, wrote=9_000) == 2.5  # what an nsys that waits uses
    assert machine.after(60) == 4.5  # the pause of a job that was stopped
    assert machine.watch.restart() == 0
    assert machine.after(0.9) == 0
    assert machine.after(0.1) == 1


@pytest.mark.parametrize(
    ("work", "state"),
    [
        ({"ran": 0.06}, b"S"),
        ({"ran": 0.01, "waited": 0.5}, b"S"),
        ({"wrote": 50_001}, b"S"),
        ({}, b"D"),
        ({}, b"R"),
    ],
)
def test_work_takes_back_three_seconds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, work: dict[str, Any], state: bytes
) -> None:
    machine = Machine(monkeypatch, tmp_path)
    assert [machine.after(2) for _ in range(3)] == [2, 4, 6]
    machine.state = state
    assert machine.after(1, **work) == 3
    machine.state = b"S"
    assert [machine.after(1), machine.after(1, ran=0.5), machine.after(1, ran=0.5)] == [4, 1, 0]
