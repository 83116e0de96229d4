"""So many tests of a kind run at a time as there are slots, and once more if they fail."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tiers
from tiers import SLOTS, slot
from waiting import PATIENCE_S


@pytest.mark.parametrize("kind", SLOTS)
def test_one_more_waits_until_another_ends(tmp_path: Path, kind: str) -> None:
    held, free = threading.Semaphore(0), threading.Event()

    def record() -> None:
        with slot(tmp_path, kind):
            held.release()
            assert free.wait(PATIENCE_S)

    workers = [threading.Thread(target=record) for _ in range(SLOTS[kind] + 1)]
    for worker in workers:
        worker.start()
    for _ in range(SLOTS[kind]):
        assert held.acquire(timeout=PATIENCE_S)
    assert not held.acquire(timeout=0.3)
    free.set()
    assert held.acquire(timeout=PATIENCE_S)
    for worker in workers:
        worker.join()


FAILS_AT_FIRST = """
import gc, subprocess, pytest

attempts = []

@pytest.mark.nsys
def test_that_fails_at_first():
    attempts.append(1)
    left = [subprocess.Popen(["sleep", "0"], stdout=subprocess.PIPE)]
    left.append(left)
    assert len(attempts) > 1
    left[0].communicate()

def test_that_frees_it():
    gc.collect()
"""


def test_what_a_first_attempt_left_open_fails_no_other_test(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(FAILS_AT_FIRST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\nmarkers = nsys")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tiers"]
    environment = {**os.environ, "PYTHONPATH": str(Path(tiers.__file__).parent)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert "test_that_fails_at_first" in done.stdout  # as one that needed it
