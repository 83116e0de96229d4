"""The summary screen as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.text import Text

from nsyswrap.base.text import clip, printable, screen_width, shorten
from nsyswrap.render.formats.text import headed, styled, table_lines, wrapped
from nsyswrap.render.names import readable_tables
from nsyswrap.reports.answer import WIDTH
from nsyswrap.reports.answer.line import CELLS

if TYPE_CHECKING:
    from nsyswrap.base.units import TimeUnit
    from nsyswrap.render.formats.text import Line
    from nsyswrap.reports.answer import AnswerLine
    from nsyswrap.reports.summary import SummaryScreen
    from nsyswrap.reports.table import Table

_AND = "; "  # separates the parts of a selection
_LEAST_BAR = 10  # columns
_STYLES = {"bad": "red", "warning": "magenta", "good": "green", "": ""}


def render(
    summary: SummaryScreen,
    *,
    width: int = 100,
    color: bool = False,
    time_unit: TimeUnit = "auto",
) -> str:
    """Return the screen."""
    selected = _shared([table for table, _ in summary.tables])
    lines: list[Line] = wrapped(summary.ending, width, "red") if summary.ending else []
    if summary.command:
        lines.append(Text(shorten(printable(summary.command), width), style="dim"))
    lines += answer_texts(summary.lines, width)
    lines += wrapped(summary.origin, width, "")
    lines += wrapped(f"selected: {_AND.join(selected)}", width, "magenta") if any(selected) else []
    checked, *warnings = summary.trust.lines
    lines += wrapped(checked, width, "green")
    lines += [Text(clip(printable(line), width), "magenta") for line in warnings]
    lines += answer_texts(summary.more, width)
    for table, rows in summary.tables:
        rest = [part for part in table.selection.split(_AND) if part not in selected]
        part = replace(table, selection=_AND.join(rest))
        lines += ["", *table_lines(part, width, top=rows, time_unit=time_unit, whole="")]
    return styled(lines, color=color)


def answer_texts(lines: Iterable[AnswerLine], width: int = WIDTH) -> Iterator[Line]:
    """Yield the lines of an answer in the styles of a terminal, wrapped if it is narrow."""
    for line in lines:
        style = _STYLES[line.level] or ("dim" if line.kind == "note" else "")
        if line.typed:
            yield from _typed_texts(line, width, style)
            continue
        columns = min(width, WIDTH)
        text = f"{line}{_bar(line, columns)}"
        indent = "  " if width >= WIDTH else "    "
        first, *rest = [text] if screen_width(text) <= columns else wrapped(text, columns, style, indent)
        yield headed(str(first), style, line.heading)
        yield from rest


def _typed_texts(line: AnswerLine, width: int, style: str) -> Iterator[Line]:
    """Yield a line that ends with a command. The command is never cut or wrapped: it can be copied."""
    text = str(line)
    if screen_width(text) <= width:
        yield Text(text, style=style)
    else:
        yield Text(f"{replace(line, typed='')}:", style=style)
        yield Text(f"    {line.typed}", style=style)


def _bar(line: AnswerLine, width: int) -> str:
    cells = min(CELLS, width - screen_width(str(line)) - len("  "))
    return f"  {line.blocks(cells)}" if line.bar and cells >= _LEAST_BAR else ""


def with_readable_names(summary: SummaryScreen) -> SummaryScreen:
    """Return the summary with readable kernel names."""
    tables = readable_tables([table for table, _ in summary.tables])
    rows = [rows for _, rows in summary.tables]
    return replace(summary, tables=list(zip(tables, rows, strict=True)))


def _shared(tables: Sequence[Table]) -> list[str]:
    """Return the parts of the selection that all tables share. They are printed once, above the tables."""
    selections = [table.selection.split(_AND) for table in tables]
    return [part for part in selections[0] if all(part in parts for parts in selections)] if tables else []
