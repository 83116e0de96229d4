"""Compare the ranks of one job. Each report is a module of its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass

with lazy_imports():  # names are looked up before a program runs
    from nsyswrap.analysis.ranks import job as ranks_job
    from nsyswrap.base import units
    from nsyswrap.capture import schema
    from nsyswrap.reports import table
    from nsyswrap.reports.wording import checks
    from nsyswrap.reports.wording import notes as wording

if TYPE_CHECKING:
    from nsyswrap.analysis.finding import Note
    from nsyswrap.analysis.ranks.job import RankJob
    from nsyswrap.analysis.ranks.members import RankCapture
    from nsyswrap.reports.table import Schema, Table

NAMES = ("rank_waiting", "rank_skew", "rank_steps", "rank_collectives")
SCREEN = ("rank_waiting", "rank_skew")  # the default reports
_LEAST = 2
_RANKS = ("rank", "slowest_rank", "fastest_rank")  # columns that name one


class RankResult(NamedTuple):
    """What a report over ranks computes: rows, notes beside those of the job, and a verdict."""

    rows: Sequence[tuple[object, ...]]
    notes: Sequence[Note | str]
    verdict: str = ""


@dataclass(frozen=True)
class RankReport:
    """A table that is computed from the ranks of a job.

    ``needs`` lists groups of event kinds. One rank at least must hold events of one kind of each group.
    """

    schema: Schema
    needs: tuple[tuple[str, ...], ...]
    compute: Callable[[RankJob], RankResult]


def split(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split reports, as -r names them, into those of one capture and those over ranks."""
    wanted = [name for part in names for name in part.split(",")]
    return [name for name in wanted if name not in NAMES], [name for name in NAMES if name in wanted]


def find_rank_report(name: str) -> RankReport:
    """Return the report over ranks with this name."""
    report: RankReport = importlib.import_module(f"nsyswrap.reports.ranks.{name}").REPORT
    return report


def make_job(members: Sequence[RankCapture]) -> RankJob:
    """Return the job of these ranks, which all reports share. Raises UsageError for fewer than two."""
    if len(members) < _LEAST:
        there = f"only {members[0].label} was found" if members else "none was found"
        raise UsageError(
            f"{there}, and a comparison needs several ranks",
            "name the folder of all ranks, several captures, or a capture with several processes",
        )
    return ranks_job.make_job(members)


def make(job: RankJob, name: str) -> Table:
    """Make one report. Raises NotInCapture if no rank holds what it needs."""
    report = find_rank_report(name)
    for group in report.needs:
        if not any(member.capture.whole.has(kind) for member in job.members for kind in group):
            kinds = [schema.EVENTS[kind] for kind in group]
            raise NotInCapture(
                f"no rank holds {' or '.join(kind.title for kind in kinds)}",
                checks.why_absent([member.capture for member in job.members], group),
                report=name,
            )
    rows, notes, verdict = report.compute(job)
    made = table.table_of(_with_rank_names(report.schema, job), rows)
    return replace(
        made, notes=wording.note_texts((*job.notes, *notes)), verdict=verdict, selection=job.selection
    )


def _with_rank_names(schema: Schema, job: RankJob) -> Schema:
    """Return the schema with columns that can hold the names of ranks, if some have no number."""
    if job.numbered:
        return schema
    columns = (
        replace(column, unit=units.Unit.TEXT) if column.name in _RANKS else column
        for column in schema.columns
    )
    return schema.with_columns(columns)
