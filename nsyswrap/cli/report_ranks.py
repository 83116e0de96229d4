"""``nsyswrap report --by rank``: every report per rank, and reports over the ranks."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from nsyswrap.analysis.answer import Answer
from nsyswrap.analysis.ranks.answer import answer_of_ranks
from nsyswrap.analysis.ranks.members import RankCapture, check_different, places, processes
from nsyswrap.analysis.steps import judged_alike
from nsyswrap.base.errors import UNREADABLE, NotInCapture, UnreadCapture, not_read
from nsyswrap.base.text import printable
from nsyswrap.base.units import Unit
from nsyswrap.capture.capture import Capture
from nsyswrap.cli.folders import captures_in
from nsyswrap.cli.options import newest_capture
from nsyswrap.cli.output import make_tables, note, note_not_read, note_remarks, step, wrapped
from nsyswrap.render.formats.text import heading
from nsyswrap.reports import ReportRequest, ranks
from nsyswrap.reports.answer import AnswerLine, answer_lines
from nsyswrap.reports.make import CAPTURE, MadeReports, MissingReport, combine
from nsyswrap.reports.table import Column, Table
from nsyswrap.reports.wording.ranks import missing_ranks


def opened(
    paths: Sequence[Path], open_one: Callable[[Path], Capture]
) -> tuple[list[RankCapture], list[UnreadCapture]]:
    """Open the captures of ranks. Return the ranks, and those that cannot be read.

    These are also reported on stderr; a single one raises its error. A single capture without a rank is split
    by process. Raises NotInCapture if none of its processes can be a rank.
    """
    wanted = places(paths or captures_in((newest_capture(by_rank=True),)))
    check_different(wanted)
    members: list[RankCapture] = []
    left_out: list[UnreadCapture] = []
    for place in wanted:
        try:
            capture = open_one(place.path)
        except UNREADABLE as error:
            if len(wanted) == 1:
                raise
            left_out.append(not_read(place.label, place.path, error))
            continue
        note_remarks(place.label, capture.remarks)
        members.append(RankCapture(place.label, place.number, capture, place.host))
    note_not_read(left_out, are_ranks=True)
    if len(wanted) == 1 and wanted[0].number is None:
        members = _split_by_process(members[0])
    if absent := missing_ranks(wanted):
        note(f"nsyswrap: {absent}")
    return members, left_out


def _split_by_process(member: RankCapture) -> list[RankCapture]:
    members, source = processes(member.capture), member.capture.source
    if not members:
        raise NotInCapture(
            f"{source} has no ranks: no process used a GPU or has NVTX ranges",
            "give the folder of all ranks, or captures of several ranks",
        )
    if len(members) > 1 and members[0].number is None:
        note(f"nsyswrap: {source} names no rank: each of its {len(members)} processes is taken as one")
    return members


def make(
    members: Sequence[RankCapture], requests: Sequence[ReportRequest], rank_reports: Sequence[str]
) -> tuple[list[Table], list[MissingReport]]:
    """Make the reports that compare ranks, then those of each rank with a column of the rank in front.

    Return the tables, and the reports that cannot be made.
    """
    across = _compare_ranks(members, rank_reports) if rank_reports else MadeReports()
    if any(request.report.judges_steps for request in requests):
        members = _judged_alike(members)
    tables, missing = make_tables({member.label: member.capture for member in members}, requests)
    by_rank = [_by_rank(table, members) for table in tables]
    return [*across.combined(), *by_rank], [*across.missing, *missing]


def answer(members: Sequence[RankCapture]) -> tuple[Answer, list[AnswerLine]] | None:
    """Return the answer over all ranks and its lines; None if fewer than two of them have GPU work."""
    alike = _judged_alike(members)
    with suppress(NotInCapture), step("judging all ranks …"):  # the tables say what is missing
        over_all = answer_of_ranks(alike)
        if over_all is not None:
            return over_all, answer_lines(alike[0].capture, over_all)
    return None


def _judged_alike(members: Sequence[RankCapture]) -> list[RankCapture]:
    alike, loop = judged_alike([member.capture for member in members])
    if loop:
        note(f"nsyswrap: all ranks are judged by {printable(loop)}, the loop that they share")
    return [replace(one, capture=capture) for one, capture in zip(members, alike, strict=True)]


def _compare_ranks(members: Sequence[RankCapture], names: Sequence[str]) -> MadeReports:
    comparison = MadeReports()
    job = ranks.make_job(members)
    for name in names:
        with step("comparing ranks …"):
            comparison.attempt(ranks.find_rank_report(name).schema, partial(ranks.make, job, name))
    for missing in comparison.missing:
        note(f"nsyswrap: no {missing.reason}")
    for text in dict.fromkeys(text for table in comparison.combined() for text in table.notes):
        note(f"nsyswrap: {text}")
    return comparison


def _by_rank(table: Table, members: Sequence[RankCapture]) -> Table:
    """Replace the column of capture labels by one of ranks, which are numbers if all are known."""
    if table.columns[0] != CAPTURE:  # there is a single rank
        table = combine([(members[0].label, table)])
    known = {member.label: member.number for member in members}
    labels = table.data[CAPTURE.name]
    numbered = None not in known.values()
    # mpi_event_trace has a column `rank` already: the rank that MPI reports.
    name = "rank" if all(column.name != "rank" for column in table.columns) else "of_rank"
    unit = Unit.NUMBER if numbered else Unit.TEXT
    column = Column(name, "Rank", "rank the row is of", unit=unit, of_source=True)
    numbers = [known[str(label)] for label in labels]
    data = {**table.data, name: np.array(numbers, np.int64) if numbered else labels}
    del data[CAPTURE.name]
    return replace(table, schema=table.schema.with_columns((column, *table.schema.columns[1:])), data=data)


def explain(name: str) -> str:
    """Return the description of a report that compares ranks, and of its columns."""
    report = ranks.find_rank_report(name)
    about = importlib.import_module(f"nsyswrap.reports.ranks.{name}").__doc__ or ""
    lines = [f"{report.schema.title}  {name}"]
    for paragraph in about.strip().split("\n\n"):
        lines += ["", *wrapped(paragraph)]
    lines += ["", "Columns of the screen; in brackets: name in CSV, JSON and Python, unit"]
    for column in report.schema.columns:
        text = f"  {heading(column):17} {column.help} [{column.name}, {column.unit.value}]"
        lines += wrapped(text, 20)
    return "\n".join([*lines, ""])
