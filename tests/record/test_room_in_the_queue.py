"""How many tasks an array gets where Slurm takes only some, and when that is an error."""

import importlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from nsyswrap.base.errors import Unavailable
from nsyswrap.record.batch.executors.slurm import commands

executor: Any = importlib.import_module("nsyswrap.record.batch.executors.slurm.executor")

FULL = "Slurm takes no more jobs of this user"


class Queue:
    """A batch of eight runs, and a Slurm that takes so many of its tasks at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: int, error: type[Unavailable]) -> None:
        self.takes, self.error, self.asked = takes, error, list[int]()
        self.numbers: Sequence[int] = range(1, 9)
        self.batch: Any = SimpleNamespace(
            batch=None, queued={}, room=100, capacity=0, note="", is_left=False, states={}
        )
        self._update()
        monkeypatch.setattr(executor.jobs, "is_cancelled", lambda _: False)
        monkeypatch.setattr(executor, "_submit_array", self._submit)

    def _update(self) -> None:
        parts = [SimpleNamespace(numbers=self.numbers)] if self.numbers else []
        self.batch.jobs = SimpleNamespace(left=parts, max_running=None)
        self.batch.left = list(self.numbers)

    def _submit(self, _: object, most: int) -> None:
        self.asked.append(most)
        if len(self.batch.queued) + most > self.takes:
            raise self.error(FULL)
        for number in self.numbers[:most]:
            self.batch.queued[number] = SimpleNamespace(state="PENDING")
            self.batch.states[number] = SimpleNamespace(state="queued")
        self.numbers = self.numbers[most:]
        self._update()


def test_an_array_is_halved_until_slurm_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(monkeypatch, 3, commands.TooMany)
    executor._submit(queue.batch)  # noqa: SLF001
    assert (queue.asked, queue.batch.left) == ([8, 4, 2], [3, 4, 5, 6, 7, 8])
    assert queue.batch.note == FULL


@pytest.mark.parametrize("error", [commands.TooMany, Unavailable])
def test_not_even_one_task_is_an_error_unless_others_are_at_work(
    monkeypatch: pytest.MonkeyPatch, error: type[Unavailable]
) -> None:
    alone = Queue(monkeypatch, 0, error)
    with pytest.raises(Unavailable, match=FULL):
        executor._submit(alone.batch)  # noqa: SLF001
    busy = Queue(monkeypatch, 1, error)
    busy.batch.capacity, busy.batch.is_left = 2, True
    busy.batch.queued[0] = SimpleNamespace(state="RUNNING")
    executor._submit(busy.batch)  # noqa: SLF001
    assert (busy.asked, len(busy.batch.left), busy.batch.note) == ([1], 8, FULL)
    over = Queue(monkeypatch, 1, error)
    over.batch.capacity, over.batch.is_left = 2, True
    over.batch.queued[0] = SimpleNamespace(state="COMPLETING")
    over.batch.states[0] = SimpleNamespace(state="done")
    with pytest.raises(Unavailable, match=FULL):
        executor._submit(over.batch)  # noqa: SLF001


def test_a_full_queue_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(monkeypatch, 0, commands.QueueFull)
    executor._submit(queue.batch)  # noqa: SLF001
    assert (queue.asked, queue.batch.note) == ([8], FULL)


def test_a_small_array_waits_until_half_of_the_room_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(monkeypatch, 100, Unavailable)
    for others, asked in ((3, []), (2, []), (1, [3])):
        queue.batch.capacity, queue.batch.queued = 4, dict.fromkeys(range(-others, 0))
        executor._submit(queue.batch)  # noqa: SLF001
        assert queue.asked == asked
    assert queue.batch.note == "Slurm's queue has room for 4 runs of this batch at a time"


def test_a_slurm_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: object) -> None:
        raise Unavailable("squeue did not answer")

    queue = Queue(monkeypatch, 0, Unavailable)
    monkeypatch.setattr(executor.jobs, "in_queue", silent)
    monkeypatch.setattr(executor, "_SILENT_S", 0.0)
    monkeypatch.setattr(executor, "_FIRST_POLL_S", 0.01)
    executor._poll(queue.batch)  # noqa: SLF001
    assert queue.batch.note == "squeue did not answer; waiting for Slurm"
