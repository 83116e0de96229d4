"""Commands that run without nsys of ours: which signals kill them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nsyswrap.record import attached

# It needs 2.5 s to end after its signal.
CLEANS_UP = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(2.5), sys.exit(7)))
open(sys.argv[1], "w").close()
time.sleep(600)
"""


def ended(folder: Path, *, again_s: float) -> attached.CommandEnd:
    """How it ends if SIGTERM comes, and another so much later."""
    ready, received, at = folder / "ready", list[signal.Signals](), 0.0

    def has_failed() -> bool:
        """It is asked in each round: signals come as from outside."""
        nonlocal at
        if not at and ready.exists():
            at = time.monotonic()
            received.append(signal.SIGTERM)
        return False

    def stop(process: subprocess.Popen[bytes], since_s: float) -> None:
        if since_s == 0:
            process.terminate()
        if since_s >= again_s and len(received) == 1:
            received.append(signal.SIGTERM)

    argv = [sys.executable, "-c", CLEANS_UP, str(ready)]
    command = attached.AttachedCommand(argv, os.environ, (1, 2), None, stop, has_failed)
    return attached.run(command, received, lambda: None)


def test_a_signal_that_is_repeated_at_once_kills_nothing(tmp_path: Path) -> None:
    assert ended(tmp_path, again_s=0.1) == attached.CommandEnd(7, signal.SIGTERM, timed_out=False)


@pytest.mark.parametrize(("job", "code"), [("", 137), ("1", 7)])
def test_a_later_one_kills_except_that_of_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, code: int
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    assert ended(tmp_path, again_s=2.1).code == code
