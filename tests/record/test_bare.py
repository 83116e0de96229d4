"""A run without nsys: real programs."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import PATIENCE_S, wait_until

from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.record import attached, guard, process_watch
from nsyswrap.record.attached import run_bare
from nsyswrap.record.program import Program, RunSpec


def spec(folder: Path, *argv: str, timeout_s: float | None = None, **env: str) -> RunSpec:
    options = RecordingOptions(env=env, timeout_s=timeout_s)
    return RunSpec(Program(argv, "program"), folder / "run", options)


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


def test_the_program_is_timed_and_leaves_no_run_folder(tmp_path: Path) -> None:
    status, times = run_bare(spec(tmp_path, *python("import time; time.sleep(0.1)")))
    assert (status.outcome, times.exit_code) == ("done", 0)
    assert times.program_s is not None
    assert times.program_s > 0.08
    assert not (tmp_path / "run").exists()


def test_a_program_that_ends_before_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look of a busy machine comes late: it waits for the end."""
    monkeypatch.setattr(subprocess.Popen, "poll", lambda process: process.wait(PATIENCE_S))
    _, times = run_bare(spec(tmp_path, "true"))
    assert times.program_s is not None


def test_the_program_runs_as_under_nsys(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = "import os; print(os.environ['MORE'], oct(os.umask(0)), os.getpgid(0) == os.getpid())"
    before = os.umask(0o027)
    try:
        status, times = run_bare(spec(tmp_path, *python(code), MORE="more"))
    finally:
        os.umask(before)
    assert capfd.readouterr().out == "more 0o27 True\n"
    assert status.exit_code == times.exit_code == 0


@pytest.mark.parametrize(
    ("code", "exit_code"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_a_program_that_fails(tmp_path: Path, code: str, exit_code: int) -> None:
    status, times = run_bare(spec(tmp_path, *python(code)))
    assert (status.outcome, times.exit_code) == ("program_failed", exit_code)
    assert status.message == f"program ended with exit code {exit_code} without nsys"


def test_a_time_limit_ends_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time has passed when all of them exist, and not before its start was noted."""
    pid, asked = tmp_path / "pid", count()

    def monotonic() -> float:
        return time.monotonic() + 3600 * (next(asked) > 0 and pid.exists())

    monkeypatch.setattr(process_watch, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))
    code = f"sleep 600 & echo $! > '{pid}.new'; mv '{pid}.new' '{pid}'; wait"
    status, _ = run_bare(spec(tmp_path, "sh", "-c", code, timeout_s=1800))
    assert (status.outcome, status.exit_code) == ("timed_out", 75)
    wait_until(lambda: guard.state(Path(f"/proc/{pid.read_text().strip()}")) in (b"", b"Z"))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is a program killed that is slow to end, nor is a second signal a later one."""
    monkeypatch.setattr(attached, "STOP_PROGRAM_S", PATIENCE_S)
    monkeypatch.setattr(process_watch, "REPEAT_S", PATIENCE_S)


@pytest.mark.usefixtures("patient")
def test_a_signal_reaches_the_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ready = tmp_path / "ready"
    code = "import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(print('told')))\n"
    code += f"open({str(ready)!r}, 'w').close()\ntime.sleep(600)"

    def interrupt() -> None:
        while not ready.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    status, _ = run_bare(spec(tmp_path, *python(code)))
    thread.join()
    assert (status.outcome, status.exit_code) == ("interrupted", 130)
    assert capfd.readouterr().out == "told\n"


@pytest.mark.usefixtures("patient")
def test_a_signal_that_is_repeated_at_once_kills_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As a launcher or a shell repeats it. The program takes a while to end."""
    code = "import os, signal, sys, time\n"
    code += "signal.signal(signal.SIGINT, lambda *_: (time.sleep(0.5), sys.exit(print('cleaned up'))))\n"
    code += "[os.kill(os.getppid(), signal.SIGINT) for _ in range(2)]\ntime.sleep(600)"
    status, _ = run_bare(spec(tmp_path, *python(code)))
    assert status.outcome == "interrupted"
    assert capfd.readouterr().out == "cleaned up\n"


def test_what_the_program_leaves_behind_is_ended(tmp_path: Path) -> None:
    """As after a run under nsys: it would disturb the next run."""
    mark = f"{time.time_ns() % 10**6 + 10**6}"
    run_bare(spec(tmp_path, *python(f"import subprocess; subprocess.Popen(['sleep', '{mark}'])")))
    wait_until(lambda: f"sleep\0{mark}\0".encode() not in command_lines())  # it has got its signal


def command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()
