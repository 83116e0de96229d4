"""Many captures digested at once, a process each: one that dies costs its own capture, and no other.

They are forked from this process, which has imported the reports by then and has no other thread: starting
one takes milliseconds, and the script that called us is not run again in it, as a fresh interpreter would.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.reports import find
from nsyswrap.reports.runs.digest import SUMMARIES, Number, digest, write

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping
    from multiprocessing.connection import Connection
    from pathlib import Path

_PATIENCE_S = 10.0  # what a worker has to tidy up after a signal; a large capture is digested in less


@dataclass(frozen=True)
class Task:
    """A capture to digest, known by a number, and the file its digest goes to."""

    number: int
    capture: Path
    target: Path


@dataclass(frozen=True)
class Made:
    """What a digest says in short: its totals and the reports it holds; or why there is none."""

    totals: Mapping[str, Number | None] | None
    reports: tuple[str, ...] = ()
    error: str = ""


def usable_cpus() -> int:
    """Return the number of CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def digest_all(tasks: Iterable[Task], jobs: int) -> Generator[tuple[Task, Made]]:
    """Digest captures in ``jobs`` processes, and yield each as it is done; all end with the iterator."""
    for name in SUMMARIES:
        find(name)  # imports it: once, here
    waiting = iter(tasks)
    workers: dict[Any, _Worker] = {}
    try:
        for _, task in zip(range(jobs), waiting, strict=False):
            worker = _Worker(task)
            workers[worker.pipe] = worker
        while workers:
            for pipe in wait(list(workers)):
                worker = workers[pipe]
                yield worker.task, worker.answer()
                task_after = next(waiting, None)
                if task_after and worker.alive:
                    worker.give(task_after)
                    continue
                workers.pop(pipe).end()
                if task_after:
                    worker = _Worker(task_after)
                    workers[worker.pipe] = worker
    finally:
        for worker in workers.values():
            worker.end()


class _Worker:
    """A process that digests one capture after another, seen from outside."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _held(signal.SIGINT, signal.SIGTERM):  # until it knows what to do with them
            self._process.start()
        theirs.close()  # its end is the only one: the pipe breaks when it dies
        self.alive = True
        self.give(task)

    def give(self, task: Task) -> None:
        self.task = task
        with suppress(OSError):  # it died since: then that is what there is to read
            self.pipe.send(task)

    def answer(self) -> Made:
        try:
            made: Made = self.pipe.recv()
        except (EOFError, OSError):
            self.alive = False
            self._process.join()
            return Made(None, error=f"{self.task.capture}: {_death(self._process.exitcode)}")
        return made

    def end(self) -> None:
        self._process.terminate()
        self._process.join(_PATIENCE_S)
        self._process.kill()
        self._process.join()
        self.pipe.close()


@contextmanager
def _held(*signals: signal.Signals) -> Iterator[None]:
    """Let signals wait until the block ends; a process that is forked in it holds them until it lets go."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection) -> None:
    """Digest what comes through the pipe, until it closes or SIGTERM comes.

    Ctrl-C is the parent's, which ends this process. The first SIGTERM raises, so that what was begun is
    tidied up; Python drops what is raised where an object is finalized, so that is looked for as well.
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

    sys.unraisablehook = dropped
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
        while not stopped:
            task: Task = pipe.recv()
            pipe.send(_made(task))
    except (EOFError, OSError, KeyboardInterrupt):
        return


def _made(task: Task) -> Made:
    try:
        found = digest(task.capture)
        write(found, task.target)
    except NsyswrapError as error:
        return Made(None, error=str(error))
    except Exception as error:  # noqa: BLE001 - whatever one capture leads to, the others go on
        return Made(None, error=f"{task.capture} cannot be read: {type(error).__name__}: {error}")
    return Made(found.totals, tuple(found.summaries))


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"the process that read it was ended by {name}" + (
            ", as a system without memory does" if name == "SIGKILL" else ""
        )
    return f"the process that read it ended with {code}"
