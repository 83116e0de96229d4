"""`nsyswrap profile` with the real nsys: what is said where the program or nsys failed."""

import os
import sys
from pathlib import Path

import pytest
from conftest import Cli

from nsyswrap.base.nsys.command import check_export
from nsyswrap.base.run_folder import EXPORT, RunFolder, Status

pytestmark = pytest.mark.usefixtures("nsys")


def status(tmp_path: Path) -> Status:
    """How the run in ``tmp_path/run`` ended."""
    return RunFolder(tmp_path / "run").read_status()


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
