"""Get a digest of every run: the stored one, or a new one made in a scratch folder."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import field, replace
from functools import cache, partial
from itertools import chain
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsyswrap.analysis.compare.model import Setup
from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, NsyswrapError, OutputError, Unreadable, UnreadCapture
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_folder import DIGEST, EXPORT, FILES, SPEC, cache_dir
from nsyswrap.base.units import Number
from nsyswrap.base.version import names_code, version
from nsyswrap.capture.open import has_capture, identity_of
from nsyswrap.reports import SUMMARIES, find_report
from nsyswrap.reports.runs.digest import (
    ANSWER_FACTS,
    FACTS,
    FORMAT,
    TOTALS,
    KeptTotals,
    RankDigest,
    damaged,
    digest,
    rank_digest,
    read_digest,
    read_kept,
    stored,
    write,
    write_lines,
)
from nsyswrap.reports.runs.workers import Worker, WorkerDeath, in_blocks

if TYPE_CHECKING:
    from nsyswrap.reports.runs.find import RecordedRun

    MakeAll = Callable[[Iterable["Task"], int], Generator[tuple["Task", "DigestTotals"]]]

_NOT_ENDED = ("planned", "running", "lost")  # a capture in such a folder is of no run that has ended
_FOLDER = "digests"
_ENDING = ".json"
_SUFFIX = ".sqlite"  # other captures are exported first
_JOURNALS = ("-wal", "-journal")
_SETTLED_S = 2.0  # a file system may give changes within this time the same time of change
_UNUSED_S = 30 * 86_400.0
_MOST_BYTES = 768 << 20  # of all digests: those of 20,000 runs


@dataclass(frozen=True)
class Task:
    """A capture to digest, the number of its run, and the file for its digest with the rows of ``reports``.

    With ``ranks``, the captures of all ranks of a run, these are compared instead. ``in_lines``: the file is
    for this `collect` alone, which needs no whole digest. The same is stored at ``kept`` for the next one.
    """

    number: int
    capture: Path
    target: Path
    ranks: tuple[Path, ...] = ()
    in_lines: bool = False
    kept: Path | None = None
    reports: Collection[str] = SUMMARIES


@dataclass(frozen=True)
class DigestTotals:
    """The totals of a digest and the names of its reports, or why there is no digest.

    ``exit_code`` is that of the error.
    """

    totals: Mapping[str, Number | None] | None
    reports: tuple[str, ...] = ()
    error: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    compared: RankDigest | None = None
    exit_code: int = CaptureError.exit_code


def digest_all(tasks: Iterable[Task], jobs: int) -> Generator[tuple[Task, DigestTotals]]:
    """Digest captures in ``jobs`` processes. Yield each when it is done. All end with the iterator."""
    for name in SUMMARIES:
        find_report(name)  # imports it here, once for all processes
    waiting = iter(tasks)
    workers: dict[Any, Worker[Task, DigestTotals]] = {}
    try:
        for _, task in zip(range(jobs), waiting, strict=False):
            worker = Worker(_digest_totals, task)
            workers[worker.pipe] = worker
        while workers:
            for pipe in wait(list(workers)):
                worker = workers[pipe]
                yield worker.task, _answer(worker)
                task_after = next(waiting, None)
                if task_after and worker.alive:
                    worker.give(task_after)
                    continue
                workers.pop(pipe).end()
                if task_after:
                    worker = Worker(_digest_totals, task_after)
                    workers[worker.pipe] = worker
    finally:
        for worker in workers.values():
            worker.end()


def _answer(worker: Worker[Task, DigestTotals]) -> DigestTotals:
    try:
        return worker.answer()
    except WorkerDeath as death:
        return DigestTotals(None, error=f"{worker.task.capture}: {death}")


def _digest_totals(task: Task) -> DigestTotals:
    try:
        if task.ranks:
            return DigestTotals(None, compared=rank_digest(task.ranks))
        result = digest(task.capture, task.reports, identified=not task.in_lines)
        if task.in_lines:
            write_lines(result, task.target, task.kept)
        else:
            write(result, task.target)
    except NsyswrapError as error:
        return DigestTotals(None, error=error.message, exit_code=error.exit_code)
    except Exception as error:  # noqa: BLE001 - one capture must not end the others
        return DigestTotals(None, error=f"cannot read {task.capture}: {type(error).__name__}: {error}")
    return DigestTotals(result.totals, tuple(result.summaries), facts=result.facts)


@dataclass(frozen=True)
class RunResult:
    """A run with its totals and the file of its digest. Both are None if there is no readable capture.

    ``facts`` are those of the digest. ``ranks`` compares the ranks of the run, if the run is one of several.
    ``error_code`` is the exit code of the reason why its capture cannot be read; 0 if there is none.
    """

    run: RecordedRun
    totals: Mapping[str, Number | None] | None = None
    digest: Path | None = None
    reports: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    ranks: RankDigest | None = None
    error_code: int = 0

    @property
    def setup(self) -> Setup:
        """What has to be equal for the runs of a combination to be merged, and for those to be ranked."""
        gpus, driver, nsys = (
            self.facts.get(name) or getattr(self.run, name) for name in ("gpus", "driver", "nsys")
        )
        return Setup(tuple(filter(None, gpus.split(", "))), driver, nsys)

    @property
    def not_read(self) -> UnreadCapture | None:
        """The run, if it has a capture that cannot be read, or was not found."""
        if not (self.error_code or self.run.outcome == "damaged"):
            return None
        code = self.error_code or CaptureError.exit_code
        return UnreadCapture(self.run.label, str(self.run.path), self.run.message, exit_code=code)

    @property
    def compared(self) -> bool:
        """True if the run counts for its combination: it is done and has a digest."""
        return self.run.outcome == "done" and self.digest is not None


def made_before(task: Task) -> DigestTotals:
    """Return the digest that another process made of a task.

    Raises CaptureError if there is no digest of this capture.
    """
    digest = read_digest(task.target)
    if digest.source != identity_of(task.capture):
        raise CaptureError(f"{task.target} is the digest of another capture")
    return DigestTotals(digest.totals, tuple(digest.summaries), facts=digest.facts)


def gather(  # noqa: PLR0913 - what to make, where, how fast and by whom
    runs: Sequence[RecordedRun],
    scratch: Path,
    jobs: int,
    on_result: Callable[[RunResult], None] = lambda _: None,
    make: MakeAll = digest_all,
    *,
    reports: Collection[str] = SUMMARIES,
) -> list[RunResult]:
    """Return a result for each run, in their order. New digests go into ``scratch``.

    Of a run only its totals are kept in memory. ``make`` makes the digests, and the comparisons of ranks.
    New digests have no rows of other ``reports``.
    """
    reports = _in_order(frozenset(reports))
    results: dict[int, RunResult] = {}

    def keep(number: int, result: RunResult) -> None:
        results[number] = result
        on_result(result)

    def to_digest() -> Generator[Task]:
        with closing(in_blocks(partial(_without_reading, reports), runs, jobs)) as known:
            for number, result in enumerate(chain.from_iterable(known)):
                if result:  # from another process: with a copy of the run
                    own = runs[number]
                    keep(number, replace(result, run=own) if result.run == own else result)
                else:
                    path = runs[number].path
                    target = scratch / f"{number}{_ENDING}"
                    kept = place_of(path, reports)
                    yield Task(number, path, target, in_lines=True, kept=kept, reports=reports)

    with closing(to_digest()) as tasks, closing(make(tasks, jobs)) as made:
        for task, answer in made:
            keep(task.number, _result(runs[task.number], task.target, answer))
    prune()
    return _with_ranks([results[number] for number in range(len(runs))], jobs, make)


def _with_ranks(results: list[RunResult], jobs: int, make: MakeAll) -> list[RunResult]:
    """Return the results with the comparison of their ranks, for each run of several ranks.

    The ranks of a run of which two are the same capture are damaged.
    """
    by_run: dict[tuple[str, str], list[int]] = {}
    for number, result in enumerate(results):
        if result.run.rank is not None and result.digest:
            by_run.setdefault((result.run.batch, result.run.label), []).append(number)
    compared: dict[int, RankDigest] = {}
    tasks = []
    for numbers in by_run.values():
        captures = tuple(results[number].run.path for number in numbers)
        if len(captures) > 1 and all(map(has_capture, captures)):
            tasks.append(Task(numbers[0], captures[0], captures[0], captures))
    if tasks:
        with closing(make(tasks, jobs)) as made:
            for task, answer in made:
                compared[task.number] = answer.compared or damaged(answer.error)
    for numbers in by_run.values():
        if digest := compared.get(numbers[0]):
            for number in numbers:
                one = results[number]
                refused = _damaged(one.run, digest.refusal) if digest.refusal else None
                results[number] = refused or replace(one, ranks=digest)
    return results


def _without_reading(reports: Sequence[str], runs: Sequence[RecordedRun]) -> list[RunResult | None]:
    return [_known(run, reports) for run in runs]


def _known(run: RecordedRun, reports: Sequence[str]) -> RunResult | None:
    """Return the result of a run that has a stored digest, or no capture. None if it has to be read."""
    is_closed = run.outcome == "damaged" and not os.access(run.path, os.R_OK)
    if run.outcome in _NOT_ENDED or is_closed:
        return RunResult(run)
    try:
        digest = stored(run.path) if paths.is_folder(run.path) else None
        if digest:
            return _with_digest(run, run.path / DIGEST, digest.totals, digest.summaries, digest.facts)
        if kept := kept_digest(run.path, reports):
            place, known = kept
            return _with_digest(run, place, *known)
        return None if has_capture(run.path) else RunResult(run)
    except CaptureError as error:
        return _damaged(run, error.message)


def _result(run: RecordedRun, digest: Path, content: DigestTotals) -> RunResult:
    """Return the result of a run that was read."""
    if content.totals is not None:
        return _with_digest(run, digest, content.totals, content.reports, content.facts)
    return _damaged(run, content.error, content.exit_code)


def _damaged(run: RecordedRun, error: str, exit_code: int = CaptureError.exit_code) -> RunResult:
    """Return the result of an unreadable run. A run that is done is damaged instead."""
    outcome = "damaged" if run.outcome == "done" else run.outcome
    message = "; ".join(filter(None, (run.message, error)))
    return RunResult(replace(run, outcome=outcome, message=message), error_code=exit_code)


def _with_digest(
    run: RecordedRun,
    digest: Path,
    totals: Mapping[str, Number | None],
    reports: Collection[str],
    facts: Mapping[str, str],
) -> RunResult:
    """Return a result whose names and facts are the same objects in all results, which saves memory."""
    known = {column.name: totals.get(column.name) for column in TOTALS}
    own = {name: sys.intern(facts[name]) for name in (*FACTS, *ANSWER_FACTS) if name in facts}
    return RunResult(run, known, digest, _in_order(frozenset(reports)), own)


@cache
def _in_order(reports: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in SUMMARIES if name in reports)


# The digests that `collect` makes in the user's cache: a second one then reads no capture again.
#
# Runs of a batch have their digest in their folder. Nothing is written into the folders of other captures. A
# digest counts only for files that did not change, and for the version of nsyswrap that made it. None is kept
# by a version that does not name its code, such as a checkout with changes: its figures could be old ones.


def place_of(capture: Path, reports: Sequence[str]) -> Path | None:
    """Return the file for the digest of a .sqlite or a run folder; None if it cannot be kept.

    The name stands for its reports and for all files that it is made of, as they are now.
    """
    if not names_code():
        return None
    with suppress(OSError, OutputError, Unreadable):
        export = capture / EXPORT if paths.is_folder(capture) else capture
        folder = os.path.dirname(os.path.abspath(export))  # noqa: PTH100, PTH120 - no link is followed
        name = export.name
        names = {name, *((*FILES, SPEC) if name == EXPORT else ())}
        present = sorted(names.intersection(paths.names(folder)))
        has_journal = any(paths.size(f"{folder}/{name}{kind}") for kind in _JOURNALS)
        if name not in present or export.suffix != _SUFFIX or has_journal:
            return None
        statuses = [facts for one in present if (facts := paths.status(f"{folder}/{one}"))]
        if len(statuses) < len(present):  # a broken link
            return None
        if time.time() - max(max(one.st_mtime, one.st_ctime) for one in statuses) < _SETTLED_S:
            return None
        files = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in statuses]
        key = repr((FORMAT, version(), reports, folder, name, present, files))
        return cache_dir(_FOLDER) / f"{hashlib.sha256(os.fsencode(key)).hexdigest()[:24]}{_ENDING}"
    return None


def kept_digest(capture: Path, reports: Sequence[str]) -> tuple[Path, KeptTotals] | None:
    """Return the file of the digest of a capture that was kept, and what ``read_kept`` reads of it."""
    place = place_of(capture, reports)
    with suppress(CaptureError, OSError, Unreadable):
        if place and paths.is_file(place, follow=False):
            kept = read_kept(place)
            os.utime(place)
            return place, kept
    return None


def prune() -> None:
    """Remove digests that were not used for long, and the oldest beyond a size."""
    with suppress(OSError, OutputError, Unreadable):
        every = [(path, paths.status(path)) for path in paths.matching(cache_dir(_FOLDER), f"*{_ENDING}")]
        known = ((facts.st_mtime, facts.st_size, path) for path, facts in every if facts)
        total = 0
        for used, size, path in known:
            total += size
            if time.time() - used > _UNUSED_S or total > _MOST_BYTES:
                path.unlink(missing_ok=True)
