"""Render tables as HTML for a notebook. Text is escaped, and MathJax does not typeset it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nsyswrap.base.text import printable, shorten_all
from nsyswrap.base.units import Unit
from nsyswrap.render.answer_parts import answer_bar
from nsyswrap.render.formats.text import (
    NAMING,
    column_cells,
    fitting_columns,
    heading,
    left_out,
    paragraph_lines,
)
from nsyswrap.reports.answer import sentences
from nsyswrap.reports.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.answer import Line
    from nsyswrap.reports.table import Column, Table

_TOP = 20  # rows
WHOLE = ".frame has all"
_WIDTH = 130  # columns of text; more would need a scroll bar
_UNWRAPPED = 10_000  # columns: the browser wraps
_NAME_WIDTH = 80
_INDENT = "&nbsp;&nbsp;"
_BOLD = ("verdict", "finding")
_NO_MATH = "tex2jax_ignore mathjax_ignore"  # notebooks typeset text between dollar signs


def table_html(table: Table, top: int | None = _TOP) -> str:
    """Return a table with its title, the columns that fit, names first, and the first ``top`` rows.

    Below the table are the verdict, what is left out, the selection and the notes. Tooltips have the help
    text of a column and the full form of a shortened name. Findings are paragraphs, as on a terminal.
    """
    caption = f"<b>{_text(table.schema.title)}</b> <code>{_text(table.label)}</code>"
    notes = [_text(f"note: {note}") for note in table.notes]
    if table.schema.layout == "paragraphs":
        _, *lines = paragraph_lines(table, _UNWRAPPED, top=top)[0]
        return _block([caption, *map(_paragraph_line, lines), *notes])
    column_texts = column_cells(table, top, "auto")
    kept = fitting_columns(table.columns, column_texts, _WIDTH)
    columns = [table.columns[i] for i in names_first(table.columns, kept)]
    cells = [_cells(table.columns[i], column_texts[i]) for i in names_first(table.columns, kept)]
    head = "".join(map(_header, columns))
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    verdict = [f"<b>{_text(table.verdict)}</b>"] if table.verdict else []
    remarks = left_out(table, top, WHOLE)
    if hidden := len(table.columns) - len(kept):
        remarks.append(f"{hidden} column{'' if hidden == 1 else 's'} left out for width ({WHOLE})")
    below = [*verdict, *(_text(f"… {line}") for line in remarks)]
    below += [_text(f"selected: {table.selection}")] if table.selection else []
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return _block([caption, body, *below, *notes])


def names_first(columns: Sequence[Column], kept: Sequence[int]) -> list[int]:
    """Return the columns to show with the column of names in front, unless a text is there already."""
    names = (i for i in kept if columns[i].name.rpartition("_")[2] in NAMING)
    first = kept[0] if columns[kept[0]].unit is Unit.TEXT else next(names, kept[0])
    return [first, *(i for i in kept if i != first)]


def _paragraph_line(line: object) -> str:
    """Return a line of a finding. Its indentation stays."""
    text = f'<span style="white-space:pre-wrap">{_text(str(line))}</span>'
    return f"<b>{text}</b>" if getattr(line, "style", "") == "bold" else text


def summary_html(capture: Capture) -> str:
    """Return the summary of a capture: command, answer, origin, diagnostics and tables."""
    summary = summarize(capture)
    lines = [f"<code>{_text(summary.command)}</code>"] if summary.command else []
    if summary.ending:
        lines.insert(0, f"<b>{_text(summary.ending)}</b>")
    lines += [_answer_line(line) for line in sentences(summary.lines)]
    lines += [_text(line) for line in (summary.origin, *summary.trust)]
    return _block([*lines, *(table_html(table, rows) for table, rows in summary.tables)])


def _answer_line(line: Line) -> str:
    """Return a line of the answer, with its indentation and bar."""
    text = _text(line.text)
    bar = f" <code>{answer_bar(line)}</code>" if line.bar else ""
    return f"{_INDENT}{text}{bar}" if line.indented else f"<b>{text}</b>" if line.kind in _BOLD else text


def _block(parts: Iterable[str]) -> str:
    return f'<div class="{_NO_MATH}">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


def _header(column: Column) -> str:
    style = _style(column)
    return f'<th title="{_text(column.help)}"{style}>{_text(heading(column))}</th>'


def _cells(column: Column, texts: Sequence[str]) -> list[str]:
    if column.unit is not Unit.TEXT:  # a number and its unit stay on one line
        return [f"<td{_style(column, ';white-space:nowrap')}>{_text(text)}</td>" for text in texts]
    if column.is_sentence:
        return [f"<td{_style(column)}>{_text(text)}</td>" for text in texts]
    return [
        f'<td{_style(column)} title="{_text(text)}">{_text(short)}</td>'
        for text, short in zip(texts, shorten_all(texts, _NAME_WIDTH), strict=True)
    ]


def _style(column: Column, more: str = "") -> str:
    return f' style="text-align:{"left" if column.unit is Unit.TEXT else "right"}{more}"'


def _text(text: str) -> str:
    return escape(printable(text))
