"""Reports over the ranks of one job: who waits for whom, and why. One module each, named like its report."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import TYPE_CHECKING

from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.units import Unit
from nsyswrap.capture import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.analysis.ranks.job import Job
    from nsyswrap.analysis.ranks.members import Member
    from nsyswrap.reports.table import Report, Table

NAMES = ("rank_waiting", "rank_skew", "rank_steps")
SCREEN = ("rank_waiting", "rank_skew")  # what is shown where nothing is asked for
_LEAST = 2
_RANKS = ("rank", "slowest_rank", "fastest_rank")  # columns that name one


def split(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part reports, as -r names them, into those of one capture and those over ranks."""
    wanted = [name for part in names for name in part.split(",")]
    return [name for name in wanted if name not in NAMES], [name for name in NAMES if name in wanted]


def find_rank_report(name: str) -> Report:
    """Return the report over ranks with this name."""
    report: Report = importlib.import_module(f"nsyswrap.reports.ranks.{name}").REPORT
    return report


def make_job(members: Sequence[Member]) -> Job:
    """Return the job of these ranks, which all reports share; raises UsageError where there is but one."""
    from nsyswrap.analysis.ranks import job  # noqa: PLC0415 - names are looked up before a program runs

    if len(members) < _LEAST:
        there = f"only {members[0].label} is there" if members else "there is none"
        raise UsageError(
            f"ranks are compared with each other, and {there}",
            "give the folder of all ranks, the captures of several, or one that holds several processes",
        )
    return job.make_job(members)


def make(job: Job, name: str) -> Table:
    """Make one report; raises NotInCapture where no rank holds what it needs."""
    report = find_rank_report(name)
    for group in report.needs:
        if not any(member.capture.whole.has(kind) for member in job.members for kind in group):
            kinds = [schema.EVENTS[kind] for kind in group]
            raise NotInCapture(
                f"{name}: no rank holds {' or '.join(kind.title for kind in kinds)}",
                f"none happened, or none were collected ({kinds[0].collect})",
            )
    made: Table = importlib.import_module(f"nsyswrap.reports.ranks.{name}").table(job)
    return made


def with_rank_names(report: Report, job: Job) -> Report:
    """Return the report with columns that can hold the ranks' names."""
    if job.numbered:
        return report
    columns = (
        replace(column, unit=Unit.TEXT) if column.name in _RANKS else column for column in report.columns
    )
    return replace(report, columns=tuple(columns))
