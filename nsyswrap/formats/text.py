"""Tables for a terminal: units people read, names shortened but rows never merged, columns that fit."""

from __future__ import annotations

import io
import re
import textwrap
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from nsyswrap.formats.names import clip, shorten_all
from nsyswrap.units import TimeUnit, Unit, human

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nsyswrap.report import Column, Table

_GAP = "  "
_NAME_WIDTH = 44  # a name column gets this much before columns of figures are left out
_NAME_LEAST = 8  # and this much before all of them are
# What moves the cursor, breaks the line or turns its direction.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def render(
    tables: Iterable[Table],
    *,
    width: int = 100,
    color: bool = False,
    top: int | None = None,
    time_unit: TimeUnit = "auto",
) -> dict[str, str]:
    """Return ``{<report>.txt: text}``, at most ``width`` columns wide; ``top`` limits the rows."""
    return {
        f"{table.report.name}.txt": styled(
            table_lines(table, width, top=top, time_unit=time_unit), color=color
        )
        for table in tables
    }


def table_lines(
    table: Table, width: int, *, top: int | None = None, time_unit: TimeUnit = "auto"
) -> list[Text]:
    """Return one table as lines: title, header, rows, and what was left out."""
    columns = table.columns
    rows = table.rows()[:top]
    cells = [
        [_cell(v, column, time_unit) for v in values]
        for column, values in zip(columns, _turn(rows, columns), strict=True)
    ]
    shown = _fitting(columns, cells, width)
    room = _name_room(columns, cells, shown, width)
    laid = [_lay_out(columns[i], cells[i], room) for i in shown]
    title = Text(table.report.title, style="bold cyan").append(f"  {table.report.name}", style="dim")
    title.truncate(width, overflow="ellipsis")
    header, *body = (Text(_GAP.join(row).rstrip()) for row in zip(*laid, strict=True))
    header.stylize("underline")
    return [title, header, *body, *_notes(table, len(rows), len(columns) - len(shown), width)]


def styled(lines: Sequence[Text], *, color: bool) -> str:
    """Return lines as text; without colour there is no escape sequence in it."""
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=color, color_system="standard" if color else None, highlight=False
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    return out.getvalue()


def wrapped(text: str, width: int, style: str) -> list[Text]:
    """Wrap a sentence, indenting what continues."""
    lines = textwrap.wrap(printable(text), width, subsequent_indent="  ")
    return [Text(clip(line, width), style=style) for line in lines]


def printable(text: str) -> str:
    """Write control characters as escapes: a name in a capture must not move the cursor."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def _turn(rows: Sequence[tuple[object, ...]], columns: Sequence[Column]) -> list[tuple[object, ...]]:
    return list(zip(*rows, strict=True)) if rows else [() for _ in columns]


def _cell(value: object, column: Column, time_unit: TimeUnit) -> str:
    if column.unit is Unit.TEXT:
        return printable(str(value)) if value is not None else "(no name)"
    return human(value, column.unit, time_unit)


def _header(column: Column) -> str:
    return f"{column.header} %" if column.unit is Unit.PERCENT else column.header


def _width(column: Column, cells: Sequence[str]) -> int:
    return max([cell_len(_header(column)), *map(cell_len, cells)])


def _lay_out(column: Column, cells: Sequence[str], room: int) -> list[str]:
    """Return header and cells of one column, all equally wide."""
    if column.unit is Unit.TEXT:
        shown = [_header(column), *shorten_all(cells, room)]
        width = max(map(cell_len, shown))
        return [text + " " * (width - cell_len(text)) for text in shown]
    width = _width(column, cells)
    return [" " * (width - cell_len(text)) + text for text in [_header(column), *cells]]


def _fitting(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Leave out columns by their detail until the names have room; then any figures, from the right."""
    shown = list(range(len(columns)))

    def needed(names: int) -> int:
        widths = [_width(columns[i], cells[i]) for i in shown]
        least = _least(columns, shown)
        texts = [
            min(w, max(names, least)) if columns[i].unit is Unit.TEXT else w
            for i, w in zip(shown, widths, strict=True)
        ]
        return sum(texts) + len(_GAP) * (len(shown) - 1)

    for i in sorted((i for i in shown if columns[i].detail), key=lambda i: (-columns[i].detail, -i)):
        if needed(_NAME_WIDTH) <= width:
            return shown
        shown.remove(i)
    for i in [i for i in reversed(shown) if columns[i].unit is not Unit.TEXT]:
        if needed(_NAME_LEAST) > width:
            shown.remove(i)
    return shown


def _least(columns: Sequence[Column], shown: Sequence[int]) -> int:
    """Columns of the screen that a name takes at least: its header stays whole."""
    return max(
        _NAME_LEAST, *(cell_len(_header(columns[i])) for i in shown if columns[i].unit is Unit.TEXT), 0
    )


def _name_room(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], shown: Sequence[int], width: int
) -> int:
    """Characters a name may take: what the figures leave, shared by the long text columns."""
    texts = sorted(_width(columns[i], cells[i]) for i in shown if columns[i].unit is Unit.TEXT)
    figures = sum(_width(columns[i], cells[i]) for i in shown if columns[i].unit is not Unit.TEXT)
    room = width - figures - len(_GAP) * (len(shown) - 1)
    while len(texts) > 1 and texts[0] <= room // len(texts):
        room -= texts.pop(0)
    return max(_least(columns, shown), room // max(len(texts), 1))


def _notes(table: Table, shown: int, left_out: int, width: int) -> list[Text]:
    said = []
    if not len(table):
        said.append("no rows")
    if shown < len(table):
        more = len(table) - shown
        said.append(f"{more:,} more row{'' if more == 1 else 's'} (-r {table.report.name})")
    if left_out:
        said.append(
            f"{left_out} column{'' if left_out == 1 else 's'} left out for width (--format csv has all)"
        )
    return wrapped(f"… {'; '.join(said)}", width, "dim") if said else []
