"""Watching a process that plays nsys: patience, and what is killed when it ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nsyswrap.record import guard
from nsyswrap.record import supervisor as supervise
from nsyswrap.record.supervisor import Ending, Supervisor, signals_noted

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

# These play nsys where the real one cannot be made to: to wait for a program that does not end.
DEAF = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; "
WAITS_FOR_A_DEAF_PROGRAM = f"""
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
program = subprocess.Popen([sys.executable, "-c", {DEAF + "time.sleep(60)"!r}])
os.write(int(sys.argv[1]), b"s")
program.wait()
sys.exit(9)
"""
ENDS_A_SLOW_PROGRAM = f"""
import os, signal, subprocess, sys, time
came = []
signal.signal(signal.SIGTERM, lambda *_: came.append(1))
program = subprocess.Popen([sys.executable, "-c", {DEAF + "time.sleep(1)"!r}])
os.write(int(sys.argv[1]), b"s")
os.kill(os.getppid(), signal.SIGTERM)
os.kill(os.getpid(), signal.SIGTERM)
while not came:
    time.sleep(0.01)
if sys.argv[2] == "says so":
    open("log", "a").write("Generating '/tmp/nsys-report-1.qdstrm'")
program.wait()
sys.exit(len(came))
"""
WRITES_AFTER_ITS_PROGRAM = """
import os, signal, sys, time
came = []
signal.signal(signal.SIGTERM, lambda *_: came.append(1))
os.write(int(sys.argv[1]), b"s")
time.sleep(0.2)
os.kill(os.getppid(), signal.SIGTERM)
time.sleep(0.5)
sys.exit(len(came))
"""
SIGNALS_NOTHING = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: None)
command = [sys.executable, "-c", sys.argv[2]]
program = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
program.stdout.readline()
os.write(int(sys.argv[1]), b"s%d 0\\n" % program.pid)
sys.exit(-program.wait())
"""
LEAVES_A_PROGRAM = """
import os, subprocess, sys
subprocess.Popen(["sleep", "60"])
os.write(int(sys.argv[1]), b"s")
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "SETTLE_S", 0.1)
    monkeypatch.setattr(supervise, "STOP_PROGRAM_S", 0.5)
    monkeypatch.setattr(supervise, "STOP_NSYS_S", 1.5)
    monkeypatch.setattr(supervise, "LEAVE_S", 0.3)


@contextmanager
def supervised(folder: Path, code: str, *words: str) -> Iterator[tuple[Supervisor, list[str]]]:
    """A supervisor of ``python -c code``, and what it says of its progress."""
    log, token, said = folder / "log", uuid.uuid4().hex, list[str]()
    log.write_text("")
    reader, writer = os.pipe()
    with signals_noted() as received:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(writer), *words],
            cwd=folder,
            pass_fds=[writer],
            env={**os.environ, guard.MARK: token},
        )
        os.close(writer)
        try:
            yield Supervisor(process, token, log, reader, received, said.append), said
        finally:
            os.close(reader)


def living(supervisor: Supervisor) -> list[Path]:
    """Every process that carries the supervisor's mark."""
    mark = f"{guard.MARK}={supervisor.token}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found += [path] if mark in path.read_bytes() else []
        except OSError:  # gone, or somebody else's
            continue
    return found


def assert_nothing_left(supervisor: Supervisor) -> None:
    deadline = time.monotonic() + 30
    while living(supervisor) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert living(supervisor) == []


def test_a_program_deaf_to_signals_is_killed_and_nsys_ends_by_itself(tmp_path: Path) -> None:
    with supervised(tmp_path, WAITS_FOR_A_DEAF_PROGRAM) as (supervisor, _):
        assert supervisor.wait(0.2) == Ending(9, None, timed_out=True, killed=False)
        assert_nothing_left(supervisor)


@pytest.mark.parametrize(("program", "by"), [("", signal.SIGTERM), (DEAF, signal.SIGKILL)])
def test_a_program_that_nsys_does_not_signal_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, by: signal.Signals
) -> None:
    """One that nsys can have signalled gets no second signal."""
    monkeypatch.setattr(supervise, "SIGNAL_S", 0.1)
    monkeypatch.setattr(supervise, "STOP_PROGRAM_S", 1 if program else 30)
    monkeypatch.setattr(supervise, "STOP_NSYS_S", 30)  # a busy machine ends the others late
    code = f"import time; {program}print(flush=True); time.sleep(60)"
    with supervised(tmp_path, SIGNALS_NOTHING, code) as (supervisor, _):
        assert supervisor.wait(0.2) == Ending(by, None, timed_out=True, killed=False)
        assert supervisor.report.startswith(b"s")


def test_a_deaf_nsys_is_killed_at_last(tmp_path: Path) -> None:
    with supervised(tmp_path, f"{DEAF}time.sleep(60)") as (supervisor, _):
        assert supervisor.wait(0.2) == Ending(-9, None, timed_out=True, killed=True)


def test_an_nsys_that_is_still_writing_is_given_its_time(tmp_path: Path) -> None:
    """It goes on for 2.4 s with 1.5 s of patience, and says something every 0.3 s."""
    talks = f"[(time.sleep(0.3), open({str(tmp_path / 'log')!r}, 'a').write('.')) for _ in range(8)]"
    with supervised(tmp_path, f"{DEAF}{talks}; raise SystemExit(7)") as (supervisor, _):
        assert supervisor.wait(0.2) == Ending(7, None, timed_out=True, killed=False)


@pytest.mark.parametrize(("said", "signals"), [("says so", 1), ("says nothing", 2)])
def test_an_nsys_that_was_signalled_as_well_is_left_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, signals: int
) -> None:
    """As Slurm signals every process of a job; a second signal would cost the report."""
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setattr(supervise, "ALONE_S", 0.3)
    monkeypatch.setattr(supervise, "STOP_PROGRAM_S", 5)
    monkeypatch.setattr(supervise, "STOP_NSYS_S", 20)
    with supervised(tmp_path, ENDS_A_SLOW_PROGRAM, said) as (supervisor, _):
        assert supervisor.wait(None) == Ending(signals, signal.SIGTERM, timed_out=False, killed=False)


def test_a_program_that_ends_while_it_is_looked_at_is_no_reason_for_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nsys writes its report by then; a signal would stop that."""
    with supervised(tmp_path, WRITES_AFTER_ITS_PROGRAM) as (supervisor, _):
        ended = subprocess.Popen(["true"])
        ended.wait()
        monkeypatch.setattr(guard.Members, "living", lambda _: [supervisor.process.pid, ended.pid])
        assert supervisor.wait(None).code == 0


def test_what_nsys_leaves_running_is_killed(tmp_path: Path) -> None:
    with supervised(tmp_path, LEAVES_A_PROGRAM) as (supervisor, _):
        assert supervisor.wait(None) == Ending(0, None, timed_out=False, killed=False)
        assert_nothing_left(supervisor)


def test_what_was_meant_to_outlive_nsys_lives_on(tmp_path: Path) -> None:
    with supervised(tmp_path, LEAVES_A_PROGRAM) as (supervisor, _):
        supervisor.wait(None, leave_program=True)
        [left] = living(supervisor)
    os.kill(int(left.parent.name), signal.SIGKILL)


def test_progress_is_told_once_a_step_and_then_cleared(tmp_path: Path) -> None:
    with supervised(tmp_path, "import time; time.sleep(0.5)") as (supervisor, said):
        supervisor.log.write_text("[1/2] [=====50%   ] report.nsys-rep\r")
        supervisor.wait(None)
    assert said == ["nsys: importing the recording 50 %", ""]


def test_an_nsys_that_does_not_start_the_program_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "LATE_S", 0.2)
    code = "import os, sys, time; time.sleep(1); os.write(int(sys.argv[1]), b's'); time.sleep(0.3)"
    with supervised(tmp_path, code) as (supervisor, said):
        supervisor.late = "not started"
        supervisor.wait(None)
    assert said == ["not started", "", ""]


def test_the_run_goes_on_where_nobody_watches_any_more(tmp_path: Path) -> None:
    def gone(*_: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    code = "import os, signal, time; os.kill(os.getppid(), signal.SIGHUP); time.sleep(0.5)"
    with supervised(tmp_path, code) as (supervisor, _):
        supervisor.on_progress = supervisor.on_signal = gone
        supervisor.log.write_text("[1/2] [=====50%   ] report.nsys-rep\r")
        assert supervisor.wait(None) == Ending(0, signal.SIGHUP, timed_out=False, killed=False)


def test_signals_are_noted_and_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with signals_noted() as received:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert received == [signal.SIGTERM, signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_before_a_block_inside_another_is_not_lost() -> None:
    with signals_noted():
        os.kill(os.getpid(), signal.SIGTERM)
        with signals_noted() as received:
            assert received == [signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM, signal.SIGTERM]


def test_outside_the_main_thread_signals_stay_as_they_are() -> None:
    seen = []

    def note() -> None:
        with signals_noted():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=note)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]
