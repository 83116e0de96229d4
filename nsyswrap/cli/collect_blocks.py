"""Make the digests of `collect` in blocks of captures that an executor runs elsewhere.

A block is `nsyswrap collect --block LIST NUMBER`. Beside the list of captures lies the answer of each block.
The digest of a run folder goes into that folder, so that it is made once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, Unavailable
from nsyswrap.base.files import LARGE_BYTES, read_json, typed
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import BATCH, DIGEST, RunFolder
from nsyswrap.base.text import counted
from nsyswrap.cli.output import note, progress_line
from nsyswrap.record.batch.executors import Blocks, find_executor
from nsyswrap.record.batch.folder import open_batch
from nsyswrap.reports.runs import gather
from nsyswrap.reports.runs.digest import RankDigest

if TYPE_CHECKING:
    from nsyswrap.record.batch.task import Scalar

FOLDER = ".digests"  # in the output folder, until the tables are written
_MOST, _LEAST = 64, 20  # blocks, and captures of a block
_GRACE_S, _POLL_S = 3.0, 0.5  # for a shared file system to show what a node has written


@dataclass(frozen=True)
class _Capture:
    """A task of a block, with absolute paths."""

    capture: str
    target: str
    ranks: list[str]


@dataclass(frozen=True)
class _List:
    """The content of the list: block i has the ``size`` captures from number i * ``size``."""

    size: int
    captures: list[_Capture]


@dataclass(frozen=True)
class _Answer:
    """What a block made of a capture: its digest is in a file of its own."""

    target: str
    error: str = ""
    compared: RankDigest | None = None
    exit_code: int = CaptureError.exit_code  # of the error


@dataclass
class ExecutorDigests:
    """Makes digests with an executor. ``blocks``: their number, None for as many as are useful."""

    executor: str
    output: Path
    settings: Mapping[str, Scalar]
    blocks: int | None = None
    _known: dict[str, _Answer] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the list and the answers."""
        return self.output.absolute() / FOLDER

    def make(
        self, tasks: Iterable[gather.Task], _jobs: int
    ) -> Generator[tuple[gather.Task, gather.DigestTotals]]:
        """Yield each task with what was made of it, as ``digest_all`` does.

        Raises Unavailable if a block ended without its answer: what others made stays.
        """
        wanted = [self._placed(task) for task in tasks]
        if not wanted:
            return
        RunFolder(self.folder).make()
        job, left = "", self._unfinished(wanted)
        while left and not job:  # without a name it was an earlier job
            job = self._run(left)
            left = self._unfinished(left)
        if left:
            raise Unavailable(
                f"{job} ended without digests of {counted(len(left), 'captures')}, "
                f"such as {left[0].capture}; its logs are in {self.folder}",
                "the same command makes the missing ones; without --executor this machine makes them",
            )
        for task in wanted:
            made = self._finished(task)
            assert made  # noqa: S101 - just looked at
            yield task, made

    def clear(self) -> None:
        """Remove the folder: the tables are written."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _placed(self, task: gather.Task) -> gather.Task:
        """Return the task with the place of its digest: its run folder if that can be written."""
        captures = [str(path.absolute()) for path in (task.ranks or (task.capture,))]
        if not task.ranks and paths.is_folder(task.capture) and os.access(task.capture, os.W_OK):
            target = task.capture.absolute() / DIGEST
        else:
            name = hashlib.sha256("\n".join(captures).encode("utf-8", "surrogateescape")).hexdigest()[:24]
            target = self.folder / f"{name}.json"
        return replace(task, target=target, in_lines=False)

    def _unfinished(self, tasks: Sequence[gather.Task]) -> list[gather.Task]:
        return [task for task in tasks if not self._finished(task)]

    def _finished(self, task: gather.Task) -> gather.DigestTotals | None:
        answer = self._known.get(str(task.target))
        if answer and (answer.error or answer.compared):
            error = answer.error.replace(str(task.capture.absolute()), str(task.capture))  # as given
            return gather.DigestTotals(
                None, error=error, compared=answer.compared, exit_code=answer.exit_code
            )
        if not task.ranks:
            with suppress(CaptureError):  # not made yet
                return gather.made_before(task)
        return None

    def _run(self, tasks: Sequence[gather.Task]) -> str:
        """Run blocks of these tasks and wait; return the name of the job. It is empty for an earlier job."""
        count = self.blocks or min(_MOST, -(-len(tasks) // _LEAST))
        size = -(-len(tasks) // count)
        captures = [
            _Capture(str(t.capture.absolute()), str(t.target), [str(path.absolute()) for path in t.ranks])
            for t in tasks
        ]
        token = uuid.uuid4().hex[:8]
        RunFolder(self.folder).write(f"{token}.list", json.dumps(asdict(_List(size, captures))))
        batch = open_batch(self.output) if paths.is_file(self.output / BATCH) else None
        words = ("--block", str(self.folder / f"{token}.list"))
        blocks = Blocks(self.folder, words, -(-len(tasks) // size), batch, self.settings)
        what = (
            "the ranks of " + counted(len(tasks), "runs")
            if tasks[0].ranks
            else counted(len(tasks), "captures")
        )
        show, job = progress_line(), ""

        def on_progress(text: str) -> None:
            nonlocal job
            name = text.partition(":")[0]
            if name and name != job:
                job = name
                note(f"nsyswrap: {job} reads {what}")
            show(text)

        try:
            own = find_executor(self.executor).run_blocks(blocks, on_progress)
        except KeyboardInterrupt:
            note(f"nsyswrap: {job or 'the job'} continues; the same command waits for it, and collects")
            raise
        self._await_answers(tasks, f"{token}-*.json" if own else "*-*.json")
        return own

    def _await_answers(self, tasks: Sequence[gather.Task], pattern: str) -> None:
        deadline = time.monotonic() + _GRACE_S
        while True:
            # An earlier job can have failed on a capture that a later one has read: the latest counts.
            for path in sorted(paths.matching(self.folder, pattern), key=_changed_s):
                with suppress(OSError, ValueError):
                    answers = [typed(_Answer, one) for one in read_json(path, LARGE_BYTES)]
                    self._known |= {answer.target: answer for answer in answers}
            if all(str(task.target) in self._known for task in tasks) or time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)


def _changed_s(path: Path) -> float:
    facts = paths.status(path)
    return facts.st_mtime if facts else 0.0


def run_block(path: Path, number: int, jobs: int) -> None:
    """Make the digests of one block of a list, and write its answer."""
    content = typed(_List, read_json(path, LARGE_BYTES))
    part = content.captures[number * content.size : (number + 1) * content.size]
    tasks = [
        gather.Task(i, Path(one.capture), Path(one.target), tuple(map(Path, one.ranks)))
        for i, one in enumerate(part)
    ]
    answers = [
        asdict(_Answer(str(task.target), made.error, made.compared, made.exit_code))
        for task, made in gather.digest_all(tasks, jobs)
    ]
    RunFolder(path.parent).write(f"{path.stem}-{number}.json", json.dumps(answers))
