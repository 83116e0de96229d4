"""Forked processes that do work on many captures, one task after another.

A process that dies costs its own task only. Forking takes milliseconds, because this process has imported the
reports and has no other thread by then. It also does not run the user's script again, as a new interpreter
would.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections import deque
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nsyswrap.base.files import ENDING, shielded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from multiprocessing.connection import Connection

_PATIENCE_S = 10.0  # for a worker to clean up after a signal; a large capture is digested in less

_BLOCK = 100  # items, which take longer than sending them to a process

Item = TypeVar("Item")
Task = TypeVar("Task")
Answer = TypeVar("Answer")


class WorkerDeath(Exception):
    """The process died before it answered."""


def in_blocks(
    work: Callable[[Sequence[Item]], Answer], items: Sequence[Item], jobs: int
) -> Generator[Answer]:
    """Yield what ``work`` returns for each block of items, in their order, with ``jobs`` processes."""
    return _in_order(work, (items[first : first + _BLOCK] for first in range(0, len(items), _BLOCK)), jobs)


def _in_order(work: Callable[[Task], Answer], tasks: Iterable[Task], jobs: int) -> Generator[Answer]:
    """Yield what ``work`` returns for each task, in their order; ``jobs`` processes are at work.

    A task that ended its process is done here, which raises its error. So is a single task.
    """
    waiting = iter(tasks)
    first = list(islice(waiting, jobs))
    if len(first) <= 1:
        yield from map(work, chain(first, waiting))
        return
    begun: deque[tuple[Worker[Task, Answer], Task]] = deque()
    try:
        for task in first:
            begun.append((Worker(work, task), task))
        while begun:
            worker, task = begun.popleft()
            try:
                answer = worker.answer()
            except WorkerDeath:
                worker.end()
                answer = work(task)
            following = list(islice(waiting, 1))
            if not following:
                worker.end()
            elif worker.alive:
                worker.give(following[0])
                begun.append((worker, following[0]))
            else:
                begun.append((Worker(work, following[0]), following[0]))
            yield answer
    finally:
        for worker, _ in begun:
            worker.end()


class Worker(Generic[Task, Answer]):
    """The parent's side of a process that does one task after another."""

    def __init__(self, work: Callable[[Task], Answer], task: Task) -> None:
        """Start the process, and give it the first task."""
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(work, theirs, self.pipe), daemon=True)
        with shielded():  # until the process handles them
            self._process.start()
        theirs.close()  # the process has the only other end: the pipe breaks when it dies
        self.alive = True
        self.give(task)

    def give(self, task: Task) -> None:
        """Send the process its next task."""
        self.task = task
        with suppress(OSError):  # the process died since: answer() reports it
            self.pipe.send(task)

    def answer(self) -> Answer:
        """Wait for the answer. Raises Died with the reason if the process died."""
        try:
            answer: Answer = self.pipe.recv()
        except (EOFError, OSError):
            self.alive = False
            self._process.join()
            raise WorkerDeath(_death(self._process.exitcode)) from None
        return answer

    def end(self) -> None:
        """End the process, also in the middle of a task."""
        self._process.terminate()
        self._process.join(_PATIENCE_S)
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _serve(work: Callable[[Any], Any], pipe: Connection, of_parent: Connection) -> None:
    """Do the tasks that come through the pipe, until it closes or a signal comes.

    It closes when the parent is killed, because this process closes its copy of the parent's end.

    The parent handles Ctrl-C, and ends this process. The first SIGTERM or SIGHUP raises, so that files are
    removed. Python drops an exception that is raised while an object is finalized: ``stopped`` remembers it.
    """
    stopped = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            raise KeyboardInterrupt

    def dropped(what: sys.UnraisableHookArgs) -> None:
        if not isinstance(what.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(what)

    of_parent.close()
    sys.unraisablehook = dropped
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in ENDING[1:]:
        signal.signal(number, stop)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        while not stopped:
            task = pipe.recv()
            pipe.send(work(task))
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - the parent does the task, and reports the error
        return


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"the reading process was ended by {name}" + (
            ", as happens when memory runs out" if name == "SIGKILL" else ""
        )
    return f"the reading process ended with exit code {code}"
