"""The time of a program: from the exec that its launcher reports to the exit that the kernel reports."""

import os
import subprocess
import sys
import time
from contextlib import closing

import pytest
from waiting import PATIENCE_S

from nsyswrap.record import exec_program
from nsyswrap.record.program import ProgramTime

LAUNCHER = [sys.executable, "-I", "-S", exec_program.__file__]
SLOW = "import sys, time, runpy; time.sleep(1); print(time.monotonic(), flush=True); sys.argv.pop(0); "
SLOW += "runpy.run_path(sys.argv[0], run_name='__main__')"
SLOW_LAUNCHER = [sys.executable, "-c", SLOW, exec_program.__file__]


def timed(*program: str) -> tuple[float | None, float]:
    """Run a program through a slow launcher. Return its time, and the time from the launcher to its end."""
    with closing(ProgramTime()) as program_time:
        writer = program_time.writer
        process = subprocess.Popen(
            [*SLOW_LAUNCHER, f"0,1,2,{writer}/022//", *program], pass_fds=[writer], stdout=subprocess.PIPE
        )
        os.close(writer)
        while process.poll() is None:
            program_time.pause(0.5)
        for _ in ("start", "exit"):  # both may have come since the last pause
            program_time.pause(0)
        return program_time.seconds, time.monotonic() - float(process.communicate()[0])


def test_the_start_of_the_launcher_does_not_count() -> None:
    seconds, at_most_s = timed("sleep", "0.3")
    assert seconds is not None
    assert 0.3 <= seconds <= at_most_s


def test_a_program_that_ended_before_its_start_was_noted() -> None:
    with closing(ProgramTime()) as program_time:
        done = subprocess.run(
            [*LAUNCHER, f"0,1,2,{program_time.writer}/022//", "true"],
            pass_fds=[program_time.writer],
            check=True,
        )
        os.close(program_time.writer)
        program_time.pause(PATIENCE_S)
        assert done.returncode == 0
        assert program_time.seconds is not None
        assert program_time.seconds < PATIENCE_S


def test_a_launcher_that_never_ran() -> None:
    with closing(ProgramTime()) as program_time:
        os.close(program_time.writer)
        began = time.monotonic()
        program_time.pause(PATIENCE_S)  # the pipe is closed
        program_time.pause(0.1)
        assert 0.1 <= time.monotonic() - began < PATIENCE_S
        assert program_time.seconds is None


def test_a_kernel_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel before 5.3 cannot be had here: its answer is made up."""

    def refuse(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert timed("sleep", "0.2")[0] is None


def test_a_python_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    """As conda's, which is built against the C library of an old system."""
    monkeypatch.delattr(os, "pidfd_open")
    assert timed("sleep", "0.2")[0] is None
