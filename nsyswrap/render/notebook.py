"""Tables in a notebook: HTML with units people read; text is escaped, and never taken for maths."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nsyswrap.base.text import shorten_all
from nsyswrap.base.units import Unit
from nsyswrap.render.formats.text import column_cells, heading, left_out, printable
from nsyswrap.reports.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.table import Column, Table

_TOP = 20  # rows
_NAME_WIDTH = 80
_UNTYPESET = "tex2jax_ignore mathjax_ignore"  # notebooks set what stands between dollars


def table_html(table: Table, top: int | None = _TOP) -> str:
    """Return a table with its title, all its columns, and the first ``top`` rows.

    Below it stand what it comes to, how many rows are left out, and what to know of it. A column says what it
    means, and a shortened name its whole, where the mouse points.
    """
    shown = column_cells(table, top, "auto")
    cells = [_cells(column, texts) for column, texts in zip(table.columns, shown, strict=True)]
    head = "".join(map(_header, table.columns))
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    said = [f"<b>{_text(table.verdict)}</b>"] if table.verdict else []
    said += [_text(f"… {line}") for line in left_out(table, top)]
    said += [_text(f"selected: {table.selection}")] if table.selection else []
    said += [_text(f"note: {note}") for note in table.notes]
    caption = f"<b>{_text(table.report.title)}</b> <code>{_text(table.label)}</code>"
    return _block([caption, f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", *said])


def summary_html(capture: Capture) -> str:
    """Return what ran where, whether to trust it, and the tables of the summary screen."""
    summary = summarise(capture)
    said = [f"<code>{_text(summary.command)}</code>"] if summary.command else []
    said += [_text(line) for line in (summary.origin, *summary.trust)]
    return _block([*said, *(table_html(table, rows) for table, rows in summary.tables)])


def _block(parts: Iterable[str]) -> str:
    return f'<div class="{_UNTYPESET}">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


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
