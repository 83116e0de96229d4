"""``nsyswrap report --by rank``: every report per rank, and reports over the ranks."""

from __future__ import annotations

import importlib
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.ranks.members import Member, missing_ranks, places, processes
from nsyswrap.base.errors import CaptureError, NotInCapture
from nsyswrap.base.run_folder import RunFolder, newest_run
from nsyswrap.base.units import Unit
from nsyswrap.cli.output import Made, make, note, step
from nsyswrap.reports import Request, ranks
from nsyswrap.reports.combine import CAPTURE, combine
from nsyswrap.reports.table import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.table import Table


_WIDTH = 100


def reports_asked(names: Sequence[str], *, by_rank: bool) -> tuple[list[str], list[str]]:
    """Return the reports of one capture that are asked for, and those over ranks, which imply --by rank."""
    reports, over = ranks.split(names)
    if over and not by_rank:
        note(f"nsyswrap: {over[0]} compares ranks: --by rank is assumed")
    elif by_rank and "all" in reports:
        over = list(ranks.NAMES)
    elif by_rank and not reports and not over:
        over = list(ranks.SCREEN)
    return reports, over


def opened(paths: Sequence[Path], open_one: Callable[[Path], Capture]) -> tuple[list[Member], int]:
    """Open the ranks' captures, and return them by rank, with the exit code of those that are damaged.

    A damaged one is said, and the others are shown. A lone capture that says no rank is taken apart; raises
    NotInCapture where it holds no process that did anything.
    """
    found = places(paths or (_newest(),))
    members: list[Member] = []
    failed = 0
    for place in found:
        try:
            capture = open_one(place.path)
        except CaptureError as error:
            if len(found) == 1:
                raise
            note(f"nsyswrap: {place.label}: {error}")
            failed = error.exit_code
            continue
        for remark in capture.remarks:
            note(f"nsyswrap: {place.label}: {remark}")
        members.append(Member(place.label, place.number, capture, place.host))
    if len(found) == 1 and found[0].number is None:
        members = _taken_apart(members[0])
    if lack := missing_ranks(found):
        note(f"nsyswrap: {lack}")
    return members, failed


def _newest() -> Path:
    """Return the newest run folder; of a launch that of all its ranks."""
    newest = newest_run()
    return newest.parent if RunFolder(newest).read_run().get("rank") else newest


def _taken_apart(member: Member) -> list[Member]:
    found, source = processes(member.capture), member.capture.source
    if not found:
        raise NotInCapture(
            f"{source} holds no process that can be taken as a rank",
            "one that used a GPU or had NVTX ranges; give the folder of all ranks, or captures of several",
        )
    if len(found) > 1:
        note(f"nsyswrap: {source} says no rank: each of its {len(found)} processes is taken as one")
    return found


def made(members: Sequence[Member], requests: Sequence[Request], over: Sequence[str]) -> Made:
    """Make the reports over the ranks, then those of each rank, with the rank in front."""
    across = _over_ranks(members, over) if over else Made([], [])
    each = make({member.label: member.capture for member in members}, requests)
    by_rank = (_by_rank(table, members) for table in each.tables)
    return Made([*across.tables, *by_rank], [*across.missing, *each.missing])


def _over_ranks(members: Sequence[Member], names: Sequence[str]) -> Made:
    made = Made([], [])
    job = ranks.make_job(members)
    for name in names:
        try:
            with step("comparing ranks …"):
                made.tables.append(ranks.make(job, name))
        except NotInCapture as error:
            note(f"nsyswrap: no {error}; {error.hint}")
            made.missing.append((Request(ranks.find_rank_report(name)), f"{error}; {error.hint}"))
    for text in dict.fromkeys(text for table in made.tables for text in table.notes):
        note(f"nsyswrap: {text}")
    return made


def _by_rank(table: Table, members: Sequence[Member]) -> Table:
    """Put the ranks where ``together`` puts the captures' labels: as numbers where all are known."""
    if table.columns[0] != CAPTURE:  # of a single rank
        table = combine([(members[0].label, table)])
    known = {member.label: member.number for member in members}
    labels = table.data[CAPTURE.name]
    numbered = None not in known.values()
    # mpi_event_trace has a column of that name: the rank as MPI says it.
    name = "rank" if all(column.name != "rank" for column in table.columns) else "of_rank"
    column = Column(name, "Rank", Unit.NUMBER if numbered else Unit.TEXT, "rank the row is of")
    numbers = [known[str(label)] for label in labels]
    data = {**table.data, name: np.array(numbers, np.int64) if numbered else labels}
    del data[CAPTURE.name]
    return replace(
        table, report=replace(table.report, columns=(column, *table.report.columns[1:])), data=data
    )


def explain(name: str) -> str:
    """Return what a report over ranks is, and what each of its columns means."""
    report = ranks.find_rank_report(name)
    about = importlib.import_module(f"nsyswrap.reports.ranks.{name}").__doc__ or ""
    lines = [f"{report.title}  {name}"]
    for paragraph in about.strip().split("\n\n"):
        lines += ["", *textwrap.wrap(paragraph, _WIDTH)]
    lines += ["", "Columns"]
    for column in report.columns:
        text = f"  {column.name:18}{column.help} [{column.unit.value}]"
        lines += textwrap.wrap(text, _WIDTH, subsequent_indent=" " * 20)
    return "\n".join([*lines, ""])
