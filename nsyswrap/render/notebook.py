"""Render tables as HTML for a notebook. Text is escaped, and MathJax does not typeset it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nsyswrap.base.text import printable, shorten_all
from nsyswrap.base.units import Unit
from nsyswrap.render.answer_parts import answer_bar
from nsyswrap.render.formats.text import column_cells, heading, left_out
from nsyswrap.reports.answer import sentences
from nsyswrap.reports.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.answer import Line
    from nsyswrap.reports.table import Column, Table

_TOP = 20  # rows
_NAME_WIDTH = 80
_INDENT = "&nbsp;&nbsp;"
_BOLD = ("verdict", "finding")
_NO_MATH = "tex2jax_ignore mathjax_ignore"  # notebooks typeset text between dollar signs


def table_html(table: Table, top: int | None = _TOP) -> str:
    """Return a table with its title, all columns and the first ``top`` rows.

    Below the table are the verdict, the number of rows left out, the selection and the notes. Tooltips have
    the help text of a column and the full form of a shortened name.
    """
    column_texts = column_cells(table, top, "auto")
    cells = [_cells(column, texts) for column, texts in zip(table.columns, column_texts, strict=True)]
    head = "".join(map(_header, table.columns))
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    lines = [f"<b>{_text(table.verdict)}</b>"] if table.verdict else []
    lines += [_text(f"… {line}") for line in left_out(table, top)]
    lines += [_text(f"selected: {table.selection}")] if table.selection else []
    lines += [_text(f"note: {note}") for note in table.notes]
    caption = f"<b>{_text(table.schema.title)}</b> <code>{_text(table.label)}</code>"
    return _block([caption, f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", *lines])


def summary_html(capture: Capture) -> str:
    """Return the summary of a capture: command, answer, origin, diagnostics and tables."""
    summary = summarise(capture)
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
