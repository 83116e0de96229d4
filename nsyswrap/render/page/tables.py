"""Render tables that the page's script sorts, filters and saves as CSV.

A cell holds the value as text for people and, if it is a number, the unrounded value for the script.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nsyswrap.analysis.kernel_names import distinct_names
from nsyswrap.base.text import counted, shorten_all
from nsyswrap.base.units import Unit, human, moment
from nsyswrap.render.formats.text import heading
from nsyswrap.render.page.html import Markup, element, joined
from nsyswrap.reports.table import Column, Table

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
