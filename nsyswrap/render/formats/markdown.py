"""Markdown tables as GitHub renders them, with readable units and full names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nsyswrap.base.text import printable, screen_width
from nsyswrap.base.units import TimeUnit, Unit
from nsyswrap.render.formats import Document, Format, Layout
from nsyswrap.render.formats.text import column_cells, heading, left_out

if TYPE_CHECKING:
    from nsyswrap.base.errors import UnreadCapture
    from nsyswrap.reports.answer import AnswerLine
    from nsyswrap.reports.table import Column, Table

_PADDED = 40  # a wider cell does not widen the other cells of its column
_MARKUP = re.compile(r"([\\`*_\[\]<>#|~&$])")


def render(
    tables: Iterable[Table], *, top: int | None = None, time_unit: TimeUnit = "auto"
) -> dict[str, str]:
    """Return ``{<report>.md: text}``: a title, the table with all its columns, verdict and notes."""
    return {f"{table.label}.md": _markdown(table, top, time_unit) for table in tables}


def _markdown(table: Table, top: int | None, time_unit: TimeUnit) -> str:
    shown = table.first(top)
    cells = column_cells(shown, time_unit)
    lines = grid(table.columns, cells)
    remarks = [*map(escaped, table.verdicts)]
    remarks += left_out(table, len(shown))
    remarks += [f"selected: {_code(table.selection)}"] if table.selection else []
    remarks += [f"note: {escaped(note)}" for note in table.notes]
    title = f"**{escaped(table.schema.title)}** {_code(table.label)}"
    return "\n\n".join([title, "\n".join(lines), *remarks]) + "\n"


def grid(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: header, delimiters and rows. ``cells`` has the texts of each column."""
    parts = [_column(column, texts) for column, texts in zip(columns, cells, strict=True)]
    return [f"| {' | '.join(row)} |" for row in zip(*parts, strict=True)]


def _column(column: Column, cells: Sequence[str]) -> list[str]:
    text = column.unit is Unit.TEXT
    marked_up = [escaped(heading(column)), *(map(_code, cells) if text else cells)]
    widths = [screen_width(cell) for cell in marked_up]
    width = min(max(widths), _PADDED)
    blanks = [" " * (width - taken) for taken in widths]
    head, *body = [
        cell + blank if text else blank + cell for cell, blank in zip(marked_up, blanks, strict=True)
    ]
    return [head, "-" * width if text else "-" * (width - 1) + ":", *body]


def _code(text: str) -> str:
    """Return a code span; inside it only its own fence and the end of the cell have a meaning."""
    text = printable(text)
    if not text:
        return ""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    room = " " if "`" in (text[0], text[-1]) or text[0] == text[-1] == " " else ""
    return f"{fence}{room}{text}{room}{fence}".replace("|", r"\|")


def escaped(text: str) -> str:
    """Return a text as Markdown shows it letter by letter."""
    return _MARKUP.sub(r"\\\1", printable(text))


def answer_markdown(label: str, lines: Iterable[AnswerLine]) -> str:
    """Return an answer as a heading with the capture's label, and a list."""
    items = [f"{'  ' if line.indented else ''}- {escaped(line.text)}" for line in lines]
    return "\n".join([f"**{escaped(label)}**" if label else "**Answer**", "", *items, ""])


def not_read_markdown(captures: Iterable[UnreadCapture]) -> str:
    """Return a list of the captures that cannot be read, with the reasons."""
    return "\n".join(["**Not read**", "", *(f"- {escaped(capture.text)}" for capture in captures), ""])


def _document(document: Document, layout: Layout) -> dict[str, str]:
    answers = {
        f"answer {label}": answer_markdown(label if len(document.captures) > 1 else "", lines)
        for label, (_, lines) in document.answers.items()
    }
    if document.job:
        answers["answer"] = answer_markdown("", document.job[1])
    left_out = {"not read": not_read_markdown(document.not_read)} if document.not_read else {}
    return {**left_out, **answers, **render(document.tables, top=layout.top, time_unit=layout.time_unit)}


FORMAT = Format(_document, for_people=True, has_answers=True)
