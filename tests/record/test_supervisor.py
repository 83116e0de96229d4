"""Watching a process that plays nsys: patience, and what is killed when it ends."""

import errno
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from waiting import PATIENCE_S, wait_until

from nsyswrap.record import guard
from nsyswrap.record import supervisor as supervise
from nsyswrap.record.process_watch import signals_noted
from nsyswrap.record.program import ProgramTime
from nsyswrap.record.supervisor import NsysEnd, Supervisor

pytestmark = pytest.mark.slow

# These play nsys where the real one cannot be made to: to wait for a program that does not end.
DEAF = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; "
# Its program says when it is ready. The exit code is the number of signals that nsys got; it is negative if
# the program ended by itself.
RECORDS = """
import os, signal, subprocess, sys, time
came = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, lambda *_: came.append(1))
command = [sys.executable, "-c", sys.argv[2]]
program = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
program.stdout.readline()
os.write(int(sys.argv[1]), b"s%d 0\\n" % program.pid)
code = program.wait()
begin = time.monotonic()
while time.monotonic() < begin + float(sys.argv[3]):
    time.sleep(0.01)
sys.exit(len(came) if code < 0 else 100 + code)
"""
# It does not notice that its program ends, as if its launcher was killed.
# It never wakes up: on a busy machine, one that wakes up often waits for a CPU, and so counts as at work.
WAITS_IN_VAIN = """
import os, signal, subprocess, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGQUIT})
program = subprocess.Popen(["true"])
os.write(int(sys.argv[1]), b"s%d 0\\n" % program.pid)
program.wait()
signal.sigwait({signal.SIGQUIT})
while sys.argv[2] == "deaf":
    signal.sigwait({signal.SIGQUIT})
"""
LEAVES_A_PROGRAM = """
import os, subprocess, sys
subprocess.Popen(["sleep", "600"])
os.write(int(sys.argv[1]), b"s")
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "STOP_PROGRAM_S", 0.5)
    monkeypatch.setattr(supervise, "LEAVE_S", 0.3)
    monkeypatch.setattr(guard, "STOP_NSYS_S", 1.5)


@contextmanager
def supervised(folder: Path, code: str, *words: str) -> Iterator[tuple[Supervisor, list[str]]]:
    """A supervisor of ``python -c code``, and what it says of its progress."""
    log, token, said = folder / "log", uuid.uuid4().hex, list[str]()
    log.write_text("")

    def note(message: str) -> None:
        said.append(message)
        (folder / f"said {len(said)}").touch()

    with signals_noted() as received, closing(ProgramTime()) as timed:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(timed.writer), *words],
            cwd=folder,
            pass_fds=[timed.writer],
            env={**os.environ, guard.MARK: token},
        )
        os.close(timed.writer)
        yield Supervisor(process, token, log, timed, received, note), said


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


def until_said(count: int) -> str:
    """Code of an nsys that goes on until the supervisor has said so much."""
    return f"import os, sys, time\nwhile not os.path.exists('said {count}'): time.sleep(0.01)"


def assert_nothing_left(supervisor: Supervisor) -> None:
    wait_until(lambda: not living(supervisor))


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_program_is_signalled_and_nsys_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: signal.Signals
) -> None:
    """nsys then takes its time to write. A program that is deaf is killed."""
    monkeypatch.setattr(guard, "STOP_NSYS_S", 30)
    code = f"import time; {DEAF if by is signal.SIGKILL else ''}print(flush=True); time.sleep(600)"
    with supervised(tmp_path, RECORDS, code, "1") as (supervisor, _):
        supervisor.received.append(signal.SIGTERM if by is signal.SIGKILL else by)
        ending = supervisor.wait(None)
        assert (ending.code, ending.killed, ending.fault) == (0, False, "")
        assert supervisor.timed.report.startswith(b"s")
        assert_nothing_left(supervisor)


def test_a_program_that_cleans_up_has_time_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "STOP_PROGRAM_S", 20)
    monkeypatch.setattr(guard, "STOP_NSYS_S", 30)
    cleans = "signal.signal(signal.SIGINT, lambda *_: (time.sleep(2), sys.exit(3)))"
    code = f"import signal, sys, time; {cleans}; print(flush=True); time.sleep(600)"
    with supervised(tmp_path, RECORDS, code, "0") as (supervisor, _):
        supervisor.received.append(signal.SIGINT)
        assert supervisor.wait(None) == NsysEnd(103, signal.SIGINT, timed_out=False, killed=False)


def test_the_time_limit_counts_for_no_program_that_ends_after_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "STOP_NSYS_S", 30)
    code = "import time; print(flush=True); time.sleep(600)"
    with supervised(tmp_path, RECORDS, code, "1.5") as (supervisor, _):
        supervisor.received.append(signal.SIGINT)
        assert supervisor.wait(1) == NsysEnd(0, signal.SIGINT, timed_out=False, killed=False)


def test_processes_of_the_program_in_other_groups_are_signalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "STOP_PROGRAM_S", 20)
    monkeypatch.setattr(guard, "STOP_NSYS_S", 30)
    code = """
import subprocess, sys
other = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(flush=True)
sys.exit(other.wait() + 20)
"""
    deaf = code.replace("import ", "import signal, ", 1).replace(
        "print", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint"
    )
    with supervised(tmp_path, RECORDS, deaf, "0") as (supervisor, _):
        assert supervisor.wait(0.2).code == 100 + 20 - signal.SIGTERM


def test_a_deaf_nsys_is_killed_at_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "START_S", 60)
    with supervised(tmp_path, f"{DEAF}time.sleep(600)") as (supervisor, _):
        assert supervisor.wait(0.2) == NsysEnd(-9, None, timed_out=True, killed=True)


def test_an_nsys_that_does_not_start_the_program_is_killed_after_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "START_S", 0.3)
    monkeypatch.setattr(guard, "STOP_NSYS_S", 60)
    with supervised(tmp_path, "import time; time.sleep(600)") as (supervisor, _):
        assert supervisor.wait(0.2) == NsysEnd(-9, None, timed_out=True, killed=True)


@pytest.mark.parametrize(("answers", "code"), [("", 0), ("deaf", -signal.SIGKILL)])
def test_an_nsys_that_waits_in_vain_is_asked_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: str, code: int
) -> None:
    monkeypatch.setattr(guard, "IDLE_S", 1.5)
    monkeypatch.setattr(guard, "ANSWER_S", 1.5)
    with supervised(tmp_path, WAITS_IN_VAIN, answers) as (supervisor, _):
        ending = supervisor.wait(None)
        assert (ending.code, ending.fault, ending.killed) == (code, "missed_end", code != 0)


def test_an_nsys_that_does_nothing_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "HUNG_S", 1.5)
    with supervised(tmp_path, "import time; time.sleep(600)") as (supervisor, _):
        assert supervisor.wait(None) == NsysEnd(-9, None, timed_out=False, killed=True, fault="hung")


def test_an_nsys_that_works_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "HUNG_S", 1.5)
    monkeypatch.setattr(guard, "IDLE_S", 1.5)
    code = "import os, sys, time; os.write(int(sys.argv[1]), b's'); begin = time.process_time()\n"
    works = code + "while time.process_time() < begin + 4: pass"
    with supervised(tmp_path, works) as (supervisor, _):
        assert supervisor.wait(None) == NsysEnd(0, None, timed_out=False, killed=False)


def test_an_nsys_that_is_still_writing_is_given_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on for 6 s with 4 s of patience, and says something every 0.3 s."""
    talks = f"[(time.sleep(0.3), open({str(tmp_path / 'log')!r}, 'a').write('.')) for _ in range(20)]"
    monkeypatch.setattr(supervise, "START_S", 60)
    monkeypatch.setattr(guard, "STOP_NSYS_S", 4)
    with supervised(tmp_path, f"{DEAF}{talks}; raise SystemExit(7)") as (supervisor, _):
        assert supervisor.wait(0.2) == NsysEnd(7, None, timed_out=True, killed=False)


def test_in_a_job_a_program_that_ends_by_itself_gets_no_second_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Slurm signals every process of a job. The program leaves the number of its signals."""
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setattr(supervise, "STOP_IN_JOB_S", PATIENCE_S)
    monkeypatch.setattr(guard, "STOP_NSYS_S", PATIENCE_S)
    code = """
import signal, sys, time
came = []
signal.signal(signal.SIGTERM, lambda *_: came.append(1))
print(flush=True)
while not came:
    time.sleep(0.01)
time.sleep(0.7)
sys.exit(len(came))
"""
    with supervised(tmp_path, RECORDS, code, "0") as (supervisor, _):

        def signal_all() -> None:  # as Slurm does
            program = int(supervisor.timed.report.split()[0].removeprefix(b"s"))
            guard.signal_all([program, os.getpid()], signal.SIGTERM)

        supervisor.on_start = signal_all
        assert supervisor.wait(None) == NsysEnd(101, signal.SIGTERM, timed_out=False, killed=False)


def test_what_nsys_leaves_running_is_killed(tmp_path: Path) -> None:
    with supervised(tmp_path, LEAVES_A_PROGRAM) as (supervisor, _):
        assert supervisor.wait(None) == NsysEnd(0, None, timed_out=False, killed=False)
        assert_nothing_left(supervisor)


def test_what_was_meant_to_outlive_nsys_lives_on(tmp_path: Path) -> None:
    with supervised(tmp_path, LEAVES_A_PROGRAM) as (supervisor, _):
        supervisor.wait(None, leave_program=True)
        [left] = living(supervisor)
    os.kill(int(left.parent.name), signal.SIGKILL)


def test_progress_is_told_once_a_step_and_then_cleared(tmp_path: Path) -> None:
    with supervised(tmp_path, f"{until_said(1)}\ntime.sleep(0.3)") as (supervisor, said):
        supervisor.log.write_text("[1/2] [=====50%   ] report.nsys-rep\r")
        supervisor.wait(None)
    assert said == ["nsys: importing the recording 50 %", ""]


def test_an_nsys_that_does_not_start_the_program_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "LATE_S", 0.2)
    code = f"{until_said(1)}\nos.write(int(sys.argv[1]), b's')\n{until_said(2)}"
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
        assert supervisor.wait(None) == NsysEnd(0, signal.SIGHUP, timed_out=False, killed=False)


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
