"""The summary as one screen of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from nsyswrap.formats.names import clip, shorten
from nsyswrap.formats.text import printable, styled, table_lines, wrapped

if TYPE_CHECKING:
    from nsyswrap.summary import Summary
    from nsyswrap.units import TimeUnit


def render(
    summary: Summary,
    *,
    width: int = 100,
    color: bool = False,
    top: int | None = None,
    time_unit: TimeUnit = "auto",
) -> str:
    """Return the screen; ``top`` replaces the number of rows each table shows."""
    lines = [Text(shorten(printable(summary.command), width), style="bold")] if summary.command else []
    lines += wrapped(summary.origin, width, "")
    seen, *warnings = summary.trust
    lines += wrapped(seen, width, "green")
    lines += [Text(clip(printable(line), width), "yellow") for line in warnings]
    for table, rows in summary.tables:
        lines += [Text(""), *table_lines(table, width, top=top or rows, time_unit=time_unit)]
    return styled(lines, color=color)
