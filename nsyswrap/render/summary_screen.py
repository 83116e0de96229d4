"""The summary screen as text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.text import Text

from nsyswrap.base.text import clip, shorten
from nsyswrap.render.formats.text import printable, styled, table_lines, wrapped
from nsyswrap.render.readable_names import readable_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nsyswrap.base.units import TimeUnit
    from nsyswrap.render.formats.text import Line
    from nsyswrap.reports.summary import Summary
    from nsyswrap.reports.table import Table

_AND = "; "  # separates the parts of a selection


def render(
    summary: Summary,
    *,
    width: int = 100,
    color: bool = False,
    top: int | None = None,
    time_unit: TimeUnit = "auto",
) -> str:
    """Return the screen; ``top`` replaces the number of rows each table shows."""
    selected = _shared([table for table, _ in summary.tables])
    lines: list[Line] = wrapped(summary.ending, width, "bold red") if summary.ending else []
    if summary.command:
        lines.append(Text(shorten(printable(summary.command), width), style="bold"))
    lines += wrapped(summary.origin, width, "")
    lines += wrapped(f"selected: {_AND.join(selected)}", width, "yellow") if any(selected) else []
    checked, *warnings = summary.trust
    lines += wrapped(checked, width, "green")
    lines += [Text(clip(printable(line), width), "yellow") for line in warnings]
    for table, rows in summary.tables:
        rest = [part for part in table.selection.split(_AND) if part not in selected]
        part = replace(table, selection=_AND.join(rest))
        lines += ["", *table_lines(part, width, top=top or rows, time_unit=time_unit)]
    return styled(lines, color=color)


def with_readable_names(summary: Summary) -> Summary:
    """Return the summary with readable kernel names."""
    tables = readable_tables([table for table, _ in summary.tables])
    rows = [rows for _, rows in summary.tables]
    return replace(summary, tables=list(zip(tables, rows, strict=True)))


def _shared(tables: Sequence[Table]) -> list[str]:
    """Return the parts of the selection that all tables share. They are printed once, above the tables."""
    selections = [table.selection.split(_AND) for table in tables]
    return [part for part in selections[0] if all(part in parts for parts in selections)] if tables else []
