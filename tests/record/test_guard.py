"""The script that ends a run whose nsyswrap was killed, and its fork, with processes that play nsys."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from nsyswrap.record import guard

# A program that ignores signals, and an nsys that waits for it.
DEAF = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) > 1:
    sys.exit(subprocess.call([sys.executable, "-c", sys.argv[1]]))
print(os.getpid(), flush=True)
signal.pause()
"""
GUARD = """
import sys
from pathlib import Path
from nsyswrap.record import guard
guard._STOP_PROGRAM_S = guard._AGAIN_S = guard._SETTLE_S = 0.3
guard.main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), "report")
"""


@pytest.mark.parametrize("guard_too", [False, True])
def test_a_program_that_ignores_signals_ends_with_nsyswrap(tmp_path: Path, *, guard_too: bool) -> None:
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    for folder in (work, temporary):
        folder.mkdir()
    token = uuid.uuid4().hex
    own = [sys.executable, "-c", GUARD, token, str(work), str(temporary)]
    nsys = [sys.executable, "-c", DEAF, DEAF]
    marked = {**os.environ, guard.MARK: token}
    with (
        subprocess.Popen(own, stdin=subprocess.PIPE, bufsize=0) as script,
        subprocess.Popen(nsys, env=marked, stdout=subprocess.PIPE, text=True) as recorder,
    ):
        assert script.stdin is not None
        assert recorder.stdout is not None
        script.stdin.write(b"%d\n" % recorder.pid)
        program = int(recorder.stdout.readline())
        if guard_too:
            wait_for(lambda: len(children(script.pid)) == 1)
            script.kill()
        script.stdin.close()
        assert recorder.wait(20) == 256 - signal.SIGKILL  # it ended by itself, after its program
    wait_for(lambda: not Path(f"/proc/{program}").exists() and not work.exists())


def test_what_is_done_leaves_nothing(tmp_path: Path) -> None:
    own = [sys.executable, "-c", GUARD, "x", str(tmp_path), str(tmp_path)]
    with subprocess.Popen(own, stdin=subprocess.PIPE, bufsize=0) as script:
        assert script.stdin is not None
        wait_for(lambda: len(children(script.pid)) == 1)
        [fork] = children(script.pid)
        script.stdin.write(guard.DONE + b"\n")
        script.stdin.close()
        assert script.wait(20) == 0
    assert not Path(f"/proc/{fork}").exists()
    assert tmp_path.exists()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(is_so: object) -> None:
    deadline = time.monotonic() + 20
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)
