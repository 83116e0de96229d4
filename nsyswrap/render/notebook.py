"""Show tables, captures and answers in Python: HTML in a notebook, text elsewhere.

HTML is escaped, and MathJax does not typeset it.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from html import escape

from nsyswrap.analysis.answer import answer_of
from nsyswrap.base.text import ascii_layout, counted, is_utf8, printable, shorten
from nsyswrap.base.units import Unit, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.render.formats.text import (
    NAMING,
    column_cells,
    fitted_columns,
    heading,
    left_out,
    paragraph_lines,
    styled,
    table_lines,
    wrapped,
)
from nsyswrap.render.names import readable_tables
from nsyswrap.reports.answer import AnswerLine, screen_texts
from nsyswrap.reports.summary import summarize
from nsyswrap.reports.table import Column, Table

_TOP = 20  # rows
WHOLE = ".frame has all"
_WIDTH = 100  # columns of text: a table is no wider than 900 px
_UNWRAPPED = 10_000  # columns: the browser wraps
_CELL = "font-size:12px;padding:2px 8px;text-align:"  # a notebook's own padding may be none
_INDENT = "&nbsp;&nbsp;"
_BOLD = ("verdict", "finding")
_NO_MATH = "tex2jax_ignore mathjax_ignore"  # notebooks typeset text between dollar signs


def table_html(table: Table, top: int | None = _TOP) -> str:
    """Return a table with its title, the columns that fit, names first, and the first ``top`` rows.

    Below the table are the verdict, what is left out, the selection and the notes. Tooltips have the help
    text of a column and the full form of a shortened name. Findings are paragraphs, as on a terminal.
    """
    [readable] = readable_tables([table])
    return _table(table, readable, top)


def _table(table: Table, readable: Table, top: int | None) -> str:
    """Return a table. ``readable`` has readable kernel names, and ``table`` the full ones for tooltips."""
    caption = f"<b>{_text(table.schema.title)}</b> <code>{_text(table.label)}</code>"
    notes = [_text(f"note: {note}") for note in table.notes]
    if table.schema.layout == "paragraphs":
        _, *lines = paragraph_lines(table, _UNWRAPPED, top=top)[0]
        return _block([caption, *map(_paragraph_line, lines), *notes])
    first = table.first(top)
    wholes = column_cells(first, "auto")
    shown = fitted_columns(readable, column_cells(readable.first(top), "auto"), _WIDTH)
    order = names_first(table.columns, list(shown))
    head = "".join(_header(table.columns[i]) for i in order)
    cells = [_cells(table.columns[i], shown[i], wholes[i]) for i in order]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    verdict = [f"<b>{_text(one)}</b>" for one in table.verdicts]
    remarks = left_out(table, len(first), WHOLE)
    if hidden := len(table.columns) - len(shown):
        remarks.append(f"{counted(hidden, 'columns')} left out for width ({WHOLE})")
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
    lines += [_answer_line(line) for line in summary.lines]
    lines += [_text(line) for line in (summary.origin, *summary.trust.lines)]
    tables = [table for table, _ in summary.tables]
    shown = zip(summary.tables, readable_tables(tables), strict=True)
    return _block([*lines, *(_table(table, readable, rows) for (table, rows), readable in shown)])


def answer_html(lines: Iterable[AnswerLine]) -> str:
    """Return the lines of an answer."""
    return _block(map(_answer_line, lines))


def _answer_line(line: AnswerLine) -> str:
    text = _text(line.text)
    bar = f" <code>{line.blocks()}</code>" if line.bar else ""
    return f"{_INDENT}{text}{bar}" if line.indented else f"<b>{text}</b>" if line.kind in _BOLD else text


def _block(parts: Iterable[str]) -> str:
    return f'<div class="{_NO_MATH}">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


def _header(column: Column) -> str:
    return f'<th title="{_text(column.help)}"{_style(column)}>{_text(heading(column))}</th>'


def _cells(column: Column, texts: Sequence[str], wholes: Sequence[str]) -> list[str]:
    if column.is_sentence:
        return [f"<td{_style(column)}>{_text(text)}</td>" for text in texts]
    style = _style(column, ";white-space:nowrap")  # a number and its unit stay on one line
    if column.unit is not Unit.TEXT:
        return [f"<td{style}>{_text(text)}</td>" for text in texts]
    return [
        f'<td{style} title="{_text(whole)}">{_text(text)}</td>'
        for text, whole in zip(texts, wholes, strict=True)
    ]


def _style(column: Column, more: str = "") -> str:
    return f' style="{_CELL}{"left" if column.unit is Unit.TEXT else "right"}{more}"'


def _text(text: str) -> str:
    return escape(printable(text))


_SCREEN_ROWS = 20  # rows
_PROGRAM_WIDTH = 40  # columns
_MOST_EVENTS = 100_000  # a larger capture takes too long to judge for a line of text


def table_text(table: Table) -> str:
    """Return title, first rows, verdict and notes of a table, as wide as the terminal."""
    width = shutil.get_terminal_size((100, 24)).columns
    with ascii_layout(active=not is_utf8(sys.stdout)):
        if table.schema.layout == "paragraphs":
            lines, _ = paragraph_lines(table, width, top=_SCREEN_ROWS)
        else:
            lines = table_lines(table, width, top=_SCREEN_ROWS, whole=WHOLE)
        lines += [line for note in table.notes for line in wrapped(f"note: {note}", width, "")]
        return printable(styled(lines, color=False).rstrip("\n"), "\n")


def answer_text(lines: Iterable[AnswerLine]) -> str:
    """Return the lines of an answer as a terminal shows them, without bars."""
    with ascii_layout(active=not is_utf8(sys.stdout)):
        return printable("\n".join(text for line in lines for text in screen_texts(line)), "\n")


def capture_line(capture: Capture) -> str:
    """Return program, GPU, kernels and how busy the GPU was, in one line. Says so if the file is damaged."""
    with ascii_layout(active=not is_utf8(sys.stdout)):
        try:
            about = ", ".join(filter(None, _facts(capture)))
        except Exception as error:  # noqa: BLE001 - a debugger shows this line: it never raises
            about = f"cannot be shown: {getattr(error, 'message', error)}"
        return f"<Capture {printable(str(capture.source))}: {printable(about)}>"


def _facts(capture: Capture) -> list[str]:
    program, *arguments = capture.info.command or ("",)
    command = shlex.join([program.rpartition("/")[2], *arguments]) if program else ""
    gpus = capture.info.gpus
    names = dict.fromkeys(gpus)
    kernels = capture.count("kernel")
    return [
        shorten(command, _PROGRAM_WIDTH),
        " + ".join(f"{gpus.count(name)} x {name}" if gpus.count(name) > 1 else name for name in names),
        counted(kernels, "kernels"),
        _busy(capture, kernels + capture.count("api")),
        f"selected: {capture.selected}" if capture.selected else "",
    ]


def _busy(capture: Capture, events: int) -> str:
    if events > _MOST_EVENTS:
        return "GPU busy: see .answer"
    answer = answer_of(capture)
    if not answer.devices:
        return "no kernels recorded" if answer.lacks_kernels else "no GPU work"
    return f"GPU busy {percent(answer.share(sum(answer.busy_ns.values())))} of the {answer.scope}"
