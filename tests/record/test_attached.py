"""Commands that run without nsys of ours: which signals kill them."""

import math
import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from nsyswrap.record import attached, process_watch

# After its signal it ends when it may.
CLEANS_UP = """
import os, signal, sys, time
def end(*_):
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
open(sys.argv[1], "w").close()
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def rounds_of_half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the machine is busy, on which the command may need many of them."""
    clock = SimpleNamespace(monotonic=count(0, 0.5).__next__, sleep=time.sleep)
    monkeypatch.setattr(process_watch, "time", clock)
    monkeypatch.setattr(attached, "STOP_S", math.inf)


def ended(folder: Path, *, again_s: float) -> attached.CommandEnd:
    """How it ends if SIGTERM comes, and another so much later. It may end in the round after that."""
    ready, may_end, received = folder / "ready", folder / "may_end", list[signal.Signals]()

    def has_failed() -> bool:
        """It is asked in each round: signals come as from outside."""
        if not received and ready.exists():
            received.append(signal.SIGTERM)
        return False

    def stop(process: subprocess.Popen[bytes], since_s: float) -> None:
        if since_s == 0:
            process.terminate()
        if len(received) > 1:
            may_end.touch()
        elif since_s >= again_s:
            received.append(signal.SIGTERM)

    argv = [sys.executable, "-c", CLEANS_UP, str(ready), str(may_end)]
    command = attached.AttachedCommand(argv, os.environ, (1, 2), None, stop, has_failed)
    return attached.run(command, received, lambda: None)


def test_a_signal_that_is_repeated_at_once_kills_nothing(tmp_path: Path) -> None:
    assert ended(tmp_path, again_s=1.5) == attached.CommandEnd(7, signal.SIGTERM, timed_out=False)


@pytest.mark.parametrize(("job", "code"), [("", 137), ("1", 7)])
def test_a_later_one_kills_except_that_of_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, code: int
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    assert ended(tmp_path, again_s=2.5).code == code
