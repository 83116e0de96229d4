"""So many tests of a kind run at a time as there are slots."""

import threading
from pathlib import Path

import pytest
from tiers import SLOTS, slot
from waiting import PATIENCE_S


@pytest.mark.parametrize("kind", SLOTS)
def test_one_more_waits_until_another_ends(tmp_path: Path, kind: str) -> None:
    held, free = threading.Semaphore(0), threading.Event()

    def record() -> None:
        with slot(tmp_path, kind):
            held.release()
            assert free.wait(120)

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
