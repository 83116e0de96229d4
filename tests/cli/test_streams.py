"""What cannot be said: stdout on a full disk, and pipes that nobody reads any more."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from tiny_export import call, kernel, write
from waiting import PATIENCE_S

COMMANDS = (
    ["--help"],
    ["report", "x.sqlite"],
    ["report", "x.sqlite", "-r", "cuda_gpu_kern_sum", "--format", "json"],
    ["redact", "--check", "x.sqlite"],
)
commands = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "x.sqlite", call("cudaLaunchKernel", 0, 5, 1), kernel("k", 10, 30, 1))
    (tmp_path / "fails.py").write_text("raise SystemExit(3)")
    (tmp_path / "fine.py").write_text("")
    return tmp_path


def run(
    folder: Path, environment: dict[str, str], command: list[str], stdout: IO[bytes] | int, stderr: int
) -> tuple[int, str]:
    """Return the exit code and what was said on stderr, where that is read."""
    argv = [sys.executable, "-m", "nsyswrap", *command]
    done = subprocess.run(
        argv, cwd=folder, env=environment, stdout=stdout, stderr=stderr, check=False, timeout=PATIENCE_S
    )
    return done.returncode, (done.stderr or b"").decode()


def closed_pipe() -> int:
    """Return the end to write to of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@commands
@pytest.mark.slow
def test_a_full_disk_is_named(folder: Path, environment: dict[str, str], command: list[str]) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - no file
        code, said = run(folder, environment, command, full, subprocess.PIPE)
    assert (code, said.splitlines()[-1]) == (73, "nsyswrap: cannot write to stdout: No space left on device")
    assert "Traceback" not in said
    assert "Exception" not in said


@commands
@pytest.mark.slow
def test_a_closed_pipe_ends_it_quietly(folder: Path, environment: dict[str, str], command: list[str]) -> None:
    pipe = closed_pipe()
    code, said = run(folder, environment, command, pipe, subprocess.PIPE)
    os.close(pipe)
    assert code == 141
    assert "rror" not in said
    assert "Exception" not in said


def test_an_error_that_cannot_be_said_has_its_code_all_the_same(
    folder: Path, environment: dict[str, str]
) -> None:
    pipe = closed_pipe()
    assert run(folder, environment, ["report", "absent.sqlite"], subprocess.DEVNULL, pipe)[0] == 65
    assert run(folder, environment, ["report", "--no-such"], subprocess.DEVNULL, pipe)[0] == 2
    os.close(pipe)


@pytest.mark.usefixtures("nsys")
@pytest.mark.parametrize(
    ("program", "code", "both"), [("fails.py", 3, True), ("fine.py", 141, False), ("fine.py", 141, True)]
)
def test_how_the_program_ended_outranks_a_closed_pipe(
    folder: Path,
    environment: dict[str, str],
    program: str,
    code: int,
    both: bool,  # noqa: FBT001
) -> None:
    pipe = closed_pipe()
    command = ["profile", "-o", "run", program]
    found, said = run(folder, environment, command, pipe, pipe if both else subprocess.PIPE)
    os.close(pipe)
    assert found == code
    assert "Traceback" not in said
    assert (folder / "run" / "status.json").exists()
