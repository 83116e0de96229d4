"""Build HTML from plain values.

All text is escaped when it is added, so no name in a capture can become a tag. The page's script sorts and
filters tables, and saves them as CSV: a cell holds the value as text for people and, if it is a number, the
unrounded value for the script.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nsyswrap.analysis.kernel_names import distinct_names
from nsyswrap.base.text import counted, printable, shorten_all
from nsyswrap.base.units import Unit, human, moment
from nsyswrap.render.formats.text import heading
from nsyswrap.render.page.subject import Subject
from nsyswrap.reports.figures import SentenceFigure
from nsyswrap.reports.table import Column, Table

S = TypeVar("S")  # what a page is about
_VOID = {"br", "input", "link", "meta"}  # elements without an end tag


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


@dataclass(frozen=True)
class Section(Generic[S]):
    """A part of the page: its anchor, its name in the navigation, and the function that makes it.

    ``make`` returns None if there is nothing to show.
    ``of_gpu``: it is left out where no capture has GPU work, as the answer says why.
    ``turn``: those with a higher number are made later, as they take much memory, which others free.
    """

    anchor: str
    name: str
    make: Callable[[S], Markup | None]
    of_gpu: bool = False
    turn: int = 0


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return one element. Children that are not Markup are escaped; None is left out.

    The attribute ``data-value`` is passed as ``data_value``, and ``class`` as ``class_``. An attribute that
    is None or False is left out. An attribute that is True is written without a value.
    """
    attribute_text = "".join(
        _attribute(key.strip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    return Markup(f"<{name}{attribute_text}>" + ("" if name in _VOID else f"{joined(children)}</{name}>"))


def joined(children: Iterable[object]) -> Markup:
    """Concatenate children. Children that are not Markup are escaped; None is left out."""
    return Markup("".join(_child(child) for child in children if child is not None))


def plain(text: str) -> str:
    """Escape control characters, lone surrogates and characters that change the direction of text."""
    if text.isascii() and text.isprintable():
        return text
    return printable(text).encode("utf-8", "backslashreplace").decode()


def data(value: object, name: str) -> Markup:
    """Return a JSON value for the page's script. The JSON cannot close its script element."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return Markup(f'<script type="application/json" id="{name}">{content}</script>')


def _child(child: object) -> str:
    return child if isinstance(child, Markup) else html.escape(plain(str(child)), quote=False)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {key}" if value is True else f' {key}="{html.escape(plain(str(value)))}"'


def marked(text: str, figures: Sequence[SentenceFigure]) -> list[str]:
    """Return a text in parts: those that are one of these figures, in their order, with key and value.

    A figure that the text does not say is left out.
    """
    parts: list[str] = []
    for figure in figures:
        before, same, after = text.partition(figure.text)
        if same:
            parts += [before, element("data", same, value=repr(figure.value), data_figure=figure.key)]
            text = after
    return [*parts, text]


def section(name: str, title: str, *children: object) -> Markup:
    """Return a ``section`` element with a heading. ``name`` is its id."""
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def side_by_side(tiles: Mapping[str, Iterable[Markup | None]]) -> Markup:
    """Return a column of tiles for each capture, with its label if there are several."""
    several = len(tiles) > 1
    columns = (
        element("div", element("h3", label) if several else None, *column) for label, column in tiles.items()
    )
    return element("div", *columns, class_="tiles several" if several else "tiles")


def in_parts(steady: object, whole: object) -> Markup:
    """Return what a page shows of the steady part and of the whole capture; a switch chooses one."""
    of = (("of-whole", whole), ("of-steady", steady))
    return joined(element("div", shown, class_=name) for name, shown in of)


def both_parts(subject: Subject, make: Callable[[Subject], Iterable[Markup | None]]) -> Markup:
    """Return what ``make`` yields of the whole captures, and of their steady parts if there are any."""
    whole = joined(make(subject))
    return whole if subject.steady is None else in_parts(joined(make(subject.steady)), whole)


def missing(reasons: Iterable[str]) -> Markup:
    """Return a note for each distinct reason why a report is missing."""
    return joined(
        element("p", f"Not available: {reason}.", class_="note") for reason in dict.fromkeys(reasons)
    )


def empty(subject: Subject, report: str) -> Markup:
    """Return why a report has no rows, for each capture whose table is empty."""
    tables = subject.tables(report)
    reasons = {label: subject.why_empty(report, label) for label, table in tables.items() if not len(table)}
    return joined(
        element("p", element("b", f"'{label}': ") if subject.several else None, f"{why[0].upper()}{why[1:]}.")
        for label, why in reasons.items()
    )


def verdict_paragraphs(tables: Mapping[str, Table]) -> Markup:
    """Return the verdict of each table, with the capture's label if there are several.

    No percentage is broken at the end of a line.
    """
    verdicts = {label: table.verdict.replace(" %", "\N{NO-BREAK SPACE}%") for label, table in tables.items()}
    return joined(
        element("p", element("b", f"'{label}': ") if len(tables) > 1 else None, verdict, class_="lead")
        for label, verdict in verdicts.items()
        if verdict
    )


ROWS = 400  # the most rows of a table, unless a section asks for others
_ON_PAPER = 15  # rows, as in page.css
_FILTERED = 9  # the fewest rows that get a filter
NAME_WIDTH = 70  # characters of a kernel's short name
_LONGEST_TEXT = 4_000  # characters of a cell
_DETAIL = 4  # columns of a higher drop order are hidden first


def folded_table(
    table: Table, title: str | None = None, *, top: int = ROWS, whole: str | None = None
) -> Markup:
    """Return a table of at most ``top`` rows that is hidden until a click opens it; see ``open_table``."""
    name = title or table.schema.title
    return element(
        "details",
        element("summary", "Table: ", name),
        open_table(table, name, top=top, whole=whole),
        class_="numbers",
    )


def open_table(
    table: Table, title: str | None = None, *, top: int = ROWS, whole: str | None = None
) -> Markup:
    """Return a table of at most ``top`` rows with its filter, its CSV button and its notes.

    ``whole`` is the option that gives all rows; by default the report is named.
    """
    name = title or table.schema.title
    # Text columns first: a phone shows only the first columns.
    texts = [i for i, column in enumerate(table.columns) if column.unit is Unit.TEXT]
    order = [*texts, *(i for i in range(len(table.columns)) if i not in texts)]
    columns = [table.columns[i] for i in order]
    rows = [tuple(row[i] for i in order) for row in table.rows(top)]
    cells = (
        element(
            "th",
            element("button", heading(column), type="button", title=column.help),
            scope="col",
            class_=_classes(column),
            data_name=column.name,
        )
        for column in columns
    )
    head, body = element("thead", element("tr", *cells)), _body(columns, rows)
    caption = element("caption", name, class_="unseen")
    grid = element("table", caption, head, body, data_report=table.label)
    scroller = element(
        "div", grid, class_="scroller", tabindex="0", role="region", aria_label=f"Table: {name}"
    )
    return element(
        "div",
        _tools(table, name, len(rows)),
        scroller,
        element("p", f"On paper: {_ON_PAPER} of {len(rows):,} rows.", class_="note paper")
        if len(rows) > _ON_PAPER
        else None,
        _notes(table, top, whole or f"-r {table.schema.name}"),
        class_="table",
    )


def _tools(table: Table, name: str, rows: int) -> Markup:
    """Return the filter, the row count and the CSV button, which stay hidden without scripts."""
    every = len(table) + table.left_out
    field = element(
        "label", "Filter ", element("input", type="search", aria_label=f"Filter {name}", autocomplete="off")
    )
    count = element("output", counted(rows, "rows"), class_="count")
    save = element(
        "button",
        "Save CSV",
        element("span", f" of {name}", class_="unseen"),
        element("span", f" ({rows:,} of {every:,} rows)" if rows < every else "", class_="part"),
        type="button",
        class_="save",
        data_file=f"{table.label}.page.csv",
        data_rows=every,
    )
    return element("div", field if rows >= _FILTERED else None, count, save, class_="tools")


def _body(columns: Sequence[Column], rows: Sequence[tuple[object, ...]]) -> Markup:
    names = [i for i, column in enumerate(columns) if column.kernels]
    readable = distinct_names({str(row[i]) for row in rows for i in names if row[i] is not None})
    shortened = dict(zip(readable, shorten_all(list(readable.values()), NAME_WIDTH), strict=True))
    cells = ([_cell(*pair, shortened) for pair in zip(columns, row, strict=True)] for row in rows)
    return element("tbody", *(element("tr", *row) for row in cells))


def _cell(column: Column, value: object, shortened: Mapping[str, str]) -> Markup:
    kind = _classes(column)
    if column.unit is not Unit.TEXT:
        text = moment(value) if column.is_timestamp else human(value, column.unit)
        is_more = column.signed and isinstance(value, (int, float)) and value > 0 and text.strip("0.")
        text = f"+{text}" if is_more else text
        return element("td", text, class_=kind, data_value="" if value is None else repr(value))
    if value is None:
        return element("td", "-", class_=kind, data_value="")
    if column.kernels:
        return element("td", kernel_name(str(value), shortened[str(value)]), class_=kind)
    return element("td", clipped(str(value), _LONGEST_TEXT), class_=kind)


def kernel_name(name: str, short_name: str) -> Markup:
    """Return the short name of a kernel, which a click opens to the full name."""
    copy = element("button", "Copy", type="button", class_="copy", aria_label="Copy the full name")
    whole = element("code", clipped(name, _LONGEST_TEXT))
    return element("details", element("summary", element("bdi", short_name)), whole, " ", copy, class_="name")


def clipped(text: str, length: int) -> str:
    """Return the first ``length`` characters of a text, with an ellipsis if it is longer."""
    return text if len(text) <= length else f"{text[:length]}…"


def _classes(column: Column) -> str:
    """Return the CSS classes of a column: text or figure, and how soon a narrow screen hides it."""
    kind = "text" if column.unit is Unit.TEXT else "figure"
    if column.drop_order > _DETAIL:
        return f"{kind} detail"
    return f"{kind} aside" if column.drop_order else kind


def _notes(table: Table, top: int, whole: str) -> Markup:
    return joined(element("p", text, class_="note") for text in _note_texts(table, top, whole))


def _note_texts(table: Table, top: int, whole: str) -> Iterator[str]:
    if not len(table) and not table.notes:
        yield "No rows: none found."
    if (more := len(table) + table.left_out - top) > 0:
        yield f"{counted(more, 'more rows')}: {whole}"
    if table.selection:
        yield f"Selected: {table.selection}"
    yield from table.notes
