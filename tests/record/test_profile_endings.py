"""`nsyswrap profile` with the real nsys: every way a run can end, and that nothing of it is left running."""

import os
import pty
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Cli
from timed import timed_out
from waiting import PATIENCE_S, wait_until

from nsyswrap.base.nsys.command import check_export, recorded_s
from nsyswrap.base.run_folder import EXPORT, WORK, RunFolder, Status

pytestmark = pytest.mark.usefixtures("nsys")

MARK = "NSYSWRAP_TEST_RUN"
WAITS = """
import time
print("ready", flush=True)
time.sleep(600)
"""
IGNORES = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
CATCHES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
time.sleep(600)
"""
DAEMONISES = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
"""
IN_A_RANGE = """
import sys, time
import nvtx
with nvtx.annotate("main"):
    time.sleep(0.05)
time.sleep(float(sys.argv[1]))
sys.exit(6)
"""


def status(tmp_path: Path) -> Status:
    """How the run in ``tmp_path/run`` ended."""
    return RunFolder(tmp_path / "run").read_status()


def living(mark: str) -> list[str]:
    """The command lines of all processes with ``mark`` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text())
        except OSError:  # gone, or somebody else's
            continue
    return found


def assert_nothing_left(mark: str) -> None:
    wait_until(lambda: not living(mark))  # what was killed takes a moment to be gone


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


@contextmanager
def running(
    folder: Path, environment: dict[str, str], mark: str, ignored: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Profile ``script.py`` and go on when it says that it is ready."""

    def ignore() -> None:
        if ignored is not None:
            signal.signal(ignored, signal.SIG_IGN)

    with subprocess.Popen(
        [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "-o", "run", "script.py"],
        cwd=folder,
        env={**environment, MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ignore,  # noqa: PLW1509 - no threads here
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def test_a_lost_terminal_leaves_a_complete_report_without_the_environment(
    tmp_path: Path, script: Path, environment: dict[str, str]
) -> None:
    script.write_text(WAITS)
    command = [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "-o", "run", "script.py"]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execvpe(command[0], command, {**environment, "API_TOKEN": "planted-token"})  # noqa: S606
    printed = b""
    while b"ready" not in printed:  # what nsyswrap said while nsys started is cleared before it
        printed += os.read(terminal, 100)
    os.close(terminal)  # as sshd does when the line drops
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 129
    assert status(tmp_path).message == "stopped by SIGHUP"
    assert check_export(tmp_path / "run" / EXPORT) == ""
    assert b"planted-token" not in (tmp_path / "run" / EXPORT).read_bytes()


def test_a_signal_while_nsys_is_starting(tmp_path: Path, environment: dict[str, str]) -> None:
    mark, began = uuid.uuid4().hex, time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "nsyswrap", "profile", "--no-stats", "-o", "run", "sleep", "600"],
        cwd=tmp_path,
        env={**environment, MARK: mark},
    ) as process:
        while not list((tmp_path / "run").glob(f"{WORK}*")):
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 143
    assert time.monotonic() - began < PATIENCE_S
    assert check_export(tmp_path / "run" / EXPORT) == ""
    assert_nothing_left(mark)


def test_an_ignored_signal_stays_ignored(tmp_path: Path, script: Path, environment: dict[str, str]) -> None:
    script.write_text(WAITS.replace("600", "1"))
    with running(tmp_path, environment, uuid.uuid4().hex, ignored=signal.SIGHUP) as process:  # nohup
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def test_a_second_signal_ends_what_ignores_the_first(
    tmp_path: Path, script: Path, environment: dict[str, str]
) -> None:
    script.write_text(IGNORES)
    mark, began = uuid.uuid4().hex, time.monotonic()
    with running(tmp_path, environment, mark) as process:
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert time.monotonic() - began < PATIENCE_S
    assert_nothing_left(mark)


@pytest.mark.parametrize("program", [WAITS, IGNORES, DAEMONISES], ids=["waits", "ignores", "daemonises"])
def test_timeout(tmp_path: Path, script: Path, cli: Cli, program: str) -> None:
    script.write_text(program)
    mark = uuid.uuid4().hex
    done, limit_s = timed_out(cli, "--no-stats", "-o", "run", script, **{MARK: mark})
    assert done.returncode == 75
    assert f"stopped after --timeout {limit_s} s" in done.stderr
    assert status(tmp_path).outcome == "timed_out"
    assert check_export(tmp_path / "run" / EXPORT) == ""
    assert_nothing_left(mark)


@pytest.mark.parametrize("program", ["import time; time.sleep(600)", CATCHES], ids=["dies", "catches"])
def test_duration_is_success(tmp_path: Path, script: Path, cli: Cli, program: str) -> None:
    script.write_text(program)
    mark = uuid.uuid4().hex
    done = cli("profile", "--no-stats", "-o", "run", "--duration", "1", script, **{MARK: mark})
    assert done.returncode == 0, (recorded_s(tmp_path / "run" / EXPORT), done.stderr)
    assert (status(tmp_path).outcome, status(tmp_path).program_code) == ("done", None)
    assert check_export(tmp_path / "run" / EXPORT) == ""
    assert_nothing_left(mark)


def test_a_program_that_fails_before_its_duration_has_failed(tmp_path: Path, cli: Cli) -> None:
    assert cli("profile", "--no-stats", "-o", "run", "--duration", "30", "sh", "-c", "exit 4").returncode == 4
    assert status(tmp_path).program_code == 4


def test_the_end_of_a_capture_range_is_success(tmp_path: Path, script: Path, cli: Cli) -> None:
    script.write_text(IN_A_RANGE)
    done = cli("profile", "--no-stats", "-o", "run", "--capture-range", "nvtx:main", script, "600")
    assert done.returncode == 0
    assert (status(tmp_path).outcome, status(tmp_path).program_code) == ("done", None)
    assert check_export(tmp_path / "run" / EXPORT) == ""


def test_a_program_that_goes_on_after_its_capture_range_can_fail(
    tmp_path: Path, script: Path, cli: Cli
) -> None:
    script.write_text(IN_A_RANGE)
    options = [
        "--no-stats",
        "-o",
        "run",
        "--capture-range",
        "nvtx:main",
        "--nsys-arg=--capture-range-end=stop",
    ]
    assert cli("profile", *options, script, "0").returncode == 6
    assert check_export(tmp_path / "run" / EXPORT) == ""


def test_a_capture_range_that_never_begins_is_told(tmp_path: Path, script: Path, cli: Cli) -> None:
    script.write_text(IN_A_RANGE)
    options = ("profile", "--no-stats", "--force", "-o", "run", "--capture-range", "nvtx:other", script, "0")
    failed = cli(*options)
    assert failed.returncode == 6
    assert "script ended with exit code 6 before the capture range nvtx:other started\n" in failed.stderr
    assert (status(tmp_path).outcome, status(tmp_path).program_code) == ("program_failed", 6)
    script.write_text(IN_A_RANGE.replace("sys.exit(6)", "sys.exit(0)"))
    done = cli(*options)
    assert done.returncode == 70
    assert "the capture range nvtx:other never started" in done.stderr
    assert (status(tmp_path).outcome, status(tmp_path).program_code) == ("nsys_failed", 0)


def test_a_crash_passes_through_with_its_report(tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", "--no-stats", "-o", "run", "sh", "-c", "kill -SEGV $$")
    assert done.returncode == 139
    assert "exit code 139 (signal 11)" in done.stderr
    assert check_export(tmp_path / "run" / EXPORT) == ""


@pytest.mark.parametrize(
    ("first_line", "code", "said"),
    [("no interpreter is named", 126, "Exec format error"), ("#!/no/such/interpreter", 127, "No such file")],
)
def test_a_program_that_cannot_be_executed(
    tmp_path: Path, cli: Cli, first_line: str, code: int, said: str
) -> None:
    (tmp_path / "program").write_text(f"{first_line}\n")
    (tmp_path / "program").chmod(0o755)
    done = cli("profile", "--no-stats", "-o", "run", "./program")
    assert (done.returncode, done.stdout) == (code, "")
    assert f"program could not be executed: {said}" in done.stderr
    assert (status(tmp_path).outcome, status(tmp_path).program_code) == ("not_started", None)


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [("./absent", 127, "./absent not found"), ("./data.txt", 126, "is not executable")],
)
def test_what_is_no_program_starts_nothing(
    tmp_path: Path, cli: Cli, program: str, code: int, said: str
) -> None:
    (tmp_path / "data.txt").write_text("no program")
    done = cli("profile", "-o", "run", program)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert not (tmp_path / "run").exists()


def test_an_option_nsys_does_not_know(tmp_path: Path, cli: Cli) -> None:
    done = cli("profile", "--nsys-arg=--bogus=1", "-o", "run", "echo", "this never runs")
    assert (done.returncode, done.stdout) == (70, "")
    assert "unrecognised option '--bogus=1'" in done.stderr
    assert (status(tmp_path).program_code, status(tmp_path).nsys_code) == (None, 1)


def test_an_option_given_twice(cli: Cli) -> None:
    done = cli("profile", "--nsys-arg=-o/x", "-o", "run", "echo", "this never runs")
    assert (done.returncode, done.stdout) == (70, "")
    assert "option '--output' cannot be specified more than once" in done.stderr


def test_a_program_that_ends_before_its_recording_begins(tmp_path: Path, cli: Cli) -> None:
    options = ("profile", "--no-stats", "--delay", "100", "--force", "-o", "run", "sh", "-c")
    done = cli(*options, "exit 0")
    assert done.returncode == 70
    assert "sh ended before the recording started: --delay is 100 s" in done.stderr
    assert status(tmp_path).program_code == 0
    failed = cli(*options, "exit 4")
    assert failed.returncode == 4
    assert "sh ended with exit code 4 before the recording started: --delay is 100 s\n" in failed.stderr
    assert (status(tmp_path).outcome, status(tmp_path).program_code) == ("program_failed", 4)


def test_a_script_that_fails_with_our_python_names_the_one_of_path(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "script.py").write_text("import not_installed_here")
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin" / "python"
    other.symlink_to(sys.executable)
    path = f"{other.parent}:{os.environ['PATH']}"
    done = cli("profile", "--no-stats", "-o", "run", "script.py", PATH=path)
    assert done.returncode == 1
    assert f"nsyswrap profile {other} script.py" in done.stderr
