"""Advice as paragraphs: what was found, the evidence, what to do, and when that would be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from nsyswrap.base.units import Unit, human
from nsyswrap.render.formats.text import styled, title, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nsyswrap.base.units import TimeUnit
    from nsyswrap.render.formats.text import Line
    from nsyswrap.reports.table import Table

NOTHING = "Nothing found: no advice. What was looked at: nsyswrap report --explain advice"


def render(
    tables: Iterable[Table],
    *,
    width: int = 100,
    color: bool = False,
    top: int | None = None,
    time_unit: TimeUnit = "auto",
) -> dict[str, str]:
    """Return ``{advice.txt: text}``; one line where nothing was found. ``top`` limits the findings."""
    return {
        f"{table.label}.txt": styled(_lines(table, width, top, time_unit), color=color) for table in tables
    }


def _lines(table: Table, width: int, top: int | None, time_unit: TimeUnit) -> list[Line]:
    names = [column.name for column in table.columns]
    lines: list[Line] = [title(table, width)]
    for number, row in enumerate(table.rows(top), 1):
        lines += [
            Text(""),
            *_paragraph(number, dict(zip(names, row, strict=True)), width, time_unit),
        ]
    if table.selection:
        lines += wrapped(f"selected: {table.selection}", width, "dim")
    return lines if len(table) else [*lines, Text(NOTHING)]


def _paragraph(number: int, row: Mapping[str, object], width: int, time_unit: TimeUnit) -> list[Line]:
    capture = f"{row['capture']}: " if "capture" in row else ""
    stake = row["at_stake_ns"]
    share = human(row["at_stake_percent"], Unit.PERCENT)
    at_stake = f" ({human(stake, Unit.NS, time_unit)} at stake, {share} %)" if stake is not None else ""
    lines = wrapped(f"{number}. {capture}{row['what']}{at_stake}", width, "bold", indent="   ")
    for label, key in (("seen:  ", "evidence"), ("do:    ", "advice"), ("unless:", "unless")):
        lines += wrapped(f"   {label} {row[key]}", width, "", indent=" " * 11)
    return [*lines, Text(f"   rows:   -r {row['see']}", "dim")]
