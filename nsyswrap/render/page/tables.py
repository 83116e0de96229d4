"""Tables on the page: to sort, to filter, to save as CSV; raw values beside what a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.text import shorten_all
from nsyswrap.base.units import Unit, human, moment
from nsyswrap.render.formats.text import heading, told_apart
from nsyswrap.render.page.html import Markup, element, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nsyswrap.reports.table import Column, Table

ROWS = 400  # of one table; the page is no place for traces
_FILTERED = 9  # rows from which on a filter helps
_NAME_WIDTH = 70  # characters of a kernel's name before it is opened
_CLIPPED = 4_000  # characters of one text


def folded(table: Table, title: str | None = None, *, top: int = ROWS) -> Markup:
    """Return a table that opens with a click: the numbers of what is above it."""
    name = title or table.report.title
    return element(
        "details", element("summary", "Numbers: ", name), block(table, name, top=top), class_="numbers"
    )


def block(table: Table, title: str | None = None, *, top: int = ROWS) -> Markup:
    """Return a table with its filter, its button for CSV, and what has to be known of it."""
    name = title or table.report.title
    order = _reading_order(table.columns)
    columns = [table.columns[i] for i in order]
    rows = [tuple(row[i] for i in order) for row in table.rows(top)]
    head, body = _head(columns), _body(columns, rows)
    caption = element("caption", name, class_="unseen")
    grid = element("table", caption, head, body, data_report=table.label)
    named = {"tabindex": "0", "role": "region", "aria_label": f"Table: {name}"}
    scroller = element("div", grid, class_="scroller", **named)
    return element("div", _tools(table, name, len(rows)), scroller, _notes(table, top), class_="table")


def _reading_order(columns: Sequence[Column]) -> list[int]:
    """Return the columns with names first, where nsys puts them last: on a phone the rest is out of sight."""
    texts = [i for i, column in enumerate(columns) if column.unit is Unit.TEXT]
    return [*texts, *(i for i in range(len(columns)) if i not in texts)]


def _tools(table: Table, name: str, rows: int) -> Markup:
    """Return what stands above a table; the script shows it."""
    field = element(
        "label", "Filter ", element("input", type="search", aria_label=f"Filter {name}", autocomplete="off")
    )
    count = element("output", f"{rows:,} row{'' if rows == 1 else 's'}", class_="count")
    save = element(
        "button",
        "Save CSV",
        element("span", f" of {name}", class_="unseen"),
        element("span", f" ({rows:,} of {len(table):,} rows)" if rows < len(table) else "", class_="part"),
        type="button",
        class_="save",
        data_file=f"{table.label}.page.csv",
        data_rows=len(table),
    )
    return element("div", field if rows >= _FILTERED else None, count, save, class_="tools")


def _head(columns: Sequence[Column]) -> Markup:
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
    return element("thead", element("tr", *cells))


def _body(columns: Sequence[Column], rows: Sequence[tuple[object, ...]]) -> Markup:
    names = [i for i, column in enumerate(columns) if column.kernels]
    shown = _short_names({str(row[i]) for row in rows for i in names if row[i] is not None})
    cells = ([_cell(*pair, shown) for pair in zip(columns, row, strict=True)] for row in rows)
    return element("tbody", *(element("tr", *row) for row in cells))


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Return what stands for each kernel's name, no two alike; the name itself opens below it."""
    readable = told_apart(names)
    return dict(zip(readable, shorten_all(list(readable.values()), _NAME_WIDTH), strict=True))


def _cell(column: Column, value: object, shown: Mapping[str, str]) -> Markup:
    kind = _classes(column)
    if column.unit is not Unit.TEXT:
        text = moment(value) if column.is_timestamp else human(value, column.unit)
        return element("td", text, class_=kind, data_value="" if value is None else repr(value))
    if value is None:
        return element("td", "-", class_=kind, data_value="")
    if column.kernels:
        return element("td", kernel_name(str(value), shown[str(value)]), class_=kind)
    return element("td", _clipped(str(value)), class_=kind)


def kernel_name(name: str, shown: str) -> Markup:
    """Return what stands for a kernel's name, which opens to all of it."""
    copy = element("button", "Copy", type="button", class_="copy", aria_label="Copy the full name")
    whole = element("code", _clipped(name))
    return element("details", element("summary", element("bdi", shown)), whole, " ", copy, class_="name")


def _clipped(text: str) -> str:
    return text if len(text) <= _CLIPPED else f"{text[:_CLIPPED]}…"


def _classes(column: Column) -> str:
    """Say how soon a column gives way where there is no room, and whether it holds figures."""
    kind = "text" if column.unit is Unit.TEXT else "figure"
    return f"{kind} detail" if column.drop_order > 4 else f"{kind} aside" if column.drop_order else kind  # noqa: PLR2004


def _notes(table: Table, top: int) -> Markup:
    return joined(element("p", text, class_="note") for text in _said(table, top))


def _said(table: Table, top: int) -> Iterator[str]:
    if not len(table) and not table.notes:
        yield "No rows: it was looked for, and there is none."
    if (more := len(table) - top) > 0:
        yield f"{more:,} more row{'' if more == 1 else 's'}: nsyswrap report -r {table.report.name}"
    if table.selection:
        yield f"Selected: {table.selection}"
    yield from table.notes
