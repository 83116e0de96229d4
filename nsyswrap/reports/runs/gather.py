"""A digest for every run: the one that lies in its folder, or one made now in a scratch folder."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nsyswrap.base.run_folder import DIGEST
from nsyswrap.reports.runs.digest import SUMMARIES, TOTALS, identity, stored
from nsyswrap.reports.runs.workers import Made, Task, digest_all

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from nsyswrap.reports.runs.digest import Number
    from nsyswrap.reports.runs.find import Run

_NOT_ENDED = ("planned", "running", "lost")  # what lies there is of no run that came to an end


@dataclass(frozen=True)
class Result:
    """A run with its totals, and where its digest lies; both None where there is no capture to read."""

    run: Run
    totals: Mapping[str, Number | None] | None = None
    digest: Path | None = None
    reports: tuple[str, ...] = ()

    @property
    def compared(self) -> bool:
        """Whether it is held against others: what was cut short or failed says nothing of its combination."""
        return self.run.outcome == "done" and self.digest is not None


def gather(
    runs: Sequence[Run], scratch: Path, jobs: int, on_result: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Return a result for each run, in their order; nothing is written but into ``scratch``.

    What is kept in memory of a run is its totals: digests stay on disk.
    """
    found: dict[int, Result] = {}

    def keep(number: int, result: Result) -> None:
        found[number] = result
        on_result(result)

    def to_digest() -> Iterator[Task]:
        for number, run in enumerate(runs):
            if result := _without_reading(run):
                keep(number, result)
            else:
                yield Task(number, run.path, scratch / f"{number}.json")

    with closing(digest_all(to_digest(), jobs)) as made:
        for task, answer in made:
            keep(task.number, _result(runs[task.number], task.target, answer))
    return [found[number] for number in range(len(runs))]


def _without_reading(run: Run) -> Result | None:
    """Return the result of a run whose digest lies there, or of which there is nothing to read (yet)."""
    if run.outcome in _NOT_ENDED:
        return Result(run)
    if run.path.is_dir() and (there := stored(run.path)):
        return _read(run, run.path / DIGEST, there.totals, there.summaries)
    return None if identity(run.path) else Result(run)


def _result(run: Run, digest: Path, made: Made) -> Result:
    """Put what was read to a run; done and not to be read is damaged, any other end stays what it was."""
    if made.totals is not None:
        return _read(run, digest, made.totals, made.reports)
    outcome = "damaged" if run.outcome == "done" else run.outcome
    return Result(replace(run, outcome=outcome, message="; ".join(filter(None, (run.message, made.error)))))


def _read(run: Run, digest: Path, totals: Mapping[str, Number | None], reports: Collection[str]) -> Result:
    """Return a result that shares its names with all others: there can be very many."""
    known = {column.name: totals.get(column.name) for column in TOTALS}
    return Result(run, known, digest, tuple(name for name in SUMMARIES if name in reports))
