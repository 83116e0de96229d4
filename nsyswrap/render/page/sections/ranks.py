"""The ranks of one job: who holds the others up, what each did on its GPU, and in which steps.

The other sections show ranks side by side; of many ranks those that differ most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.ranks.members import missing_ranks, places
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.units import duration, percent
from nsyswrap.render.page.html import Markup, element, joined
from nsyswrap.render.page.ranks_heat import SHADES, Cell, heat, scale, shade
from nsyswrap.render.page.ranks_steps import by_step
from nsyswrap.render.page.section import missing, section
from nsyswrap.render.page.tables import ROWS, folded
from nsyswrap.reports.ranks import make

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.analysis.ranks.job import Job
    from nsyswrap.analysis.ranks.members import Member
    from nsyswrap.capture.capture import Capture
    from nsyswrap.render.page.subject import Subject
    from nsyswrap.reports.table import Table

    Row = dict[str, Any]

_BESIDE = 8  # ranks that the other sections show
_TITLE = "GPU time and waiting, by rank"
_HEADERS = ("Own work", "Communi\N{SOFT HYPHEN}cation", "Waiting", "Last to arrive")


def ranks(subject: Subject) -> Markup | None:
    """Return the verdict, both heat maps and their numbers; None where there are no ranks."""
    job = subject.job
    if job is None:
        return None
    return section(
        "ranks",
        "Ranks",
        *_verdict_and_picture(job),
        _note(missing_ranks(places([member.capture.source for member in job.members]))),
        _note(_left_out(job, subject)),
    )


def side_by_side(job: Job, members: Sequence[Member]) -> dict[str, Capture]:
    """Return the captures that the other sections show, by label: of many those that wait least and most.

    Where none waits, they are those that work longest and shortest.
    """
    chosen: Sequence[int] = range(len(members))
    if len(members) > _BESIDE:
        waiting, own = (
            np.array([int(part.sum()) for part in parts])
            for parts in zip(*((times.waiting_ns, times.own_ns) for times in job.times), strict=True)
        )
        order = np.lexsort((-own, waiting)).tolist()
        chosen = sorted(order[: _BESIDE // 2] + order[-_BESIDE // 2 :])
    return {members[number].label: members[number].capture for number in chosen}


def _verdict_and_picture(job: Job) -> tuple[object, ...]:
    try:
        table = make(job, "rank_waiting")
    except NotInCapture as error:
        return (missing([f"{error}; {error.hint}"]), by_step(job))
    said = element("p", table.verdict, class_="lead") if table.verdict else joined(map(_note, table.notes))
    return (said, element("div", _by_rank(job, table), by_step(job), class_="two"))


def _by_rank(job: Job, table: Table) -> Markup:
    """Return a row per rank: its times, shaded against the longest GPU time, and how often it came last."""
    names = [column.name for column in table.columns]
    rows: list[Row] = [dict(zip(names, row, strict=True)) for row in table.rows()]
    longest = max(row["gpu_ns"] for row in rows)
    labels = [member.label for member in job.members]
    cells = {label: _cells(label, row, longest) for label, row in zip(labels, rows, strict=True)}
    texts = (f"{math.ceil(100 * number / SHADES)} %" for number in range(SHADES))
    return element(
        "article",
        element("h3", _TITLE),
        heat(_TITLE, _HEADERS, cells),
        scale(f"Share of the longest GPU time, {duration(longest)}, and of the collectives:", texts),
        folded(table, top=max(ROWS, len(rows))),
    )


def _cells(label: str, row: Row, longest: int) -> list[Cell]:
    own, communication, waiting = (row[name] for name in ("own_ns", "communication_ns", "waiting_ns"))
    last, of, gpu = row["last"], row["collectives"], row["gpu_ns"]
    told = [
        (own, f"{label}: {duration(own)} of GPU time that does not communicate"),
        (communication, f"{label}: {duration(communication)} in communication kernels, waiting included"),
    ]
    cells = [Cell(duration(ns), ns, shade(ns, longest), said) for ns, said in told]
    if waiting is None or not of:  # nothing tells who waited
        text = "not known" if waiting is None else "-"
        return [*cells, *[Cell(text, None, None, f"{label}: no collective of it could be matched")] * 2]
    said = f"{label}: waited {duration(waiting)}, {_percent(waiting, gpu)} of its GPU time"
    cells.append(Cell(duration(waiting), waiting, shade(waiting, longest), said))
    said = f"{label}: the last to arrive at {last:,} of {of:,} collectives"
    return [*cells, Cell(f"{last:,} of {of:,}", last, shade(last, of), said)]


def _percent(part: float, whole: float) -> str:
    return percent(100 * part / whole) if whole else "-"


def _left_out(job: Job, subject: Subject) -> str:
    if len(subject.captures) == len(job.members):
        return ""
    return (
        f"The other sections show {len(subject.captures)} of {len(job.members)} ranks side by side, "
        f"those that differ most: {', '.join(subject.captures)}. To see others, name their captures."
    )


def _note(text: str) -> Markup | None:
    return element("p", text, class_="note") if text else None
