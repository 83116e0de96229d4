"""Tables for a terminal: units people read, names shortened but rows never merged, columns that fit."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import clip, counted, ellipsis, printable, screen_width, shorten_all, wrap
from nsyswrap.base.units import TimeUnit, Unit, human, moment
from nsyswrap.render.formats import Document, Format, Layout
from nsyswrap.render.names import abbreviated

if TYPE_CHECKING:
    from rich.text import Text

    from nsyswrap.reports.table import Column, Paragraph, Table

    Line = Text | str  # rows are plain: there can be many of them

with lazy_imports():  # CSV needs no rich
    from rich import console as rich_console
    from rich import text as rich_text

NO_ADVICE = "No findings. nsyswrap report --explain advice lists what is checked."
_WHOLE = "--format csv has all"
_GAP = "  "
_NAME_WIDTH = 44  # a name column gets this much before columns of figures are left out
_NAME_LEAST, _NAME_MORE = 8, 12  # and this much before all of them are: more on a screen of 80 columns
_WIDE = 80
_SENTENCE = 18  # columns of wrapped sentences beside a long key
_BAR = 20  # columns
_NAME_WHOLE = 16  # a column of names no wider than this is not cut if the others keep their least
NAMING = ("name", "operation", "range")  # ends of columns with names: a missing text there is "(no name)"


def render(
    tables: Iterable[Table],
    *,
    width: int = 100,
    color: bool = False,
    top: int | None = None,
    time_unit: TimeUnit = "auto",
) -> dict[str, str]:
    """Return ``{<report>.txt: text}``, at most ``width`` columns wide; ``top`` limits the rows.

    They are one screen: a verdict is there once, and the last text ends with a line on the columns that are
    left out of all of them.
    """
    lines_of = {"table": _table_lines, "paragraphs": paragraph_lines}
    made = {
        f"{table.label}.txt": lines_of[table.schema.layout](table, width, top=top, time_unit=time_unit)
        for table in _without_repeated_verdicts(tables)
    }
    left_out_of = [hidden for _, hidden in made.values() if hidden]
    texts = {name: styled(lines, color=color) for name, (lines, _) in made.items()}
    if left_out_of:
        texts[list(texts)[-1]] += styled(_columns_left_out(left_out_of, _WHOLE, width), color=color)
    return texts


def _without_repeated_verdicts(tables: Iterable[Table]) -> Iterator[Table]:
    verdicts: set[str] = set()
    for table in tables:
        yield replace(table, verdict="") if table.verdict in verdicts else table
        verdicts.add(table.verdict)


def _columns_left_out(left_out_of: Sequence[int], whole: str, width: int) -> list[Line]:
    [*_, hidden], tables = left_out_of, len(left_out_of)
    what = f"{counted(hidden, 'columns')} left out for width"
    if tables > 1:
        what = f"columns left out for width in {tables} tables"
    return wrapped(f"… {what} ({whole})", width, "dim")


def table_lines(
    table: Table, width: int, *, top: int | None = None, time_unit: TimeUnit = "auto", whole: str = _WHOLE
) -> list[Line]:
    """Return one table as lines: title, header, rows, verdict, what was left out, and the selection.

    ``whole`` says where to find the columns that do not fit. If it is empty, they are not mentioned, and the
    title says how many rows are left out.
    """
    rows_at = ("" if whole == _WHOLE else whole) if whole else None
    lines, hidden = _table_lines(table, width, top=top, time_unit=time_unit, rows_at=rows_at)
    return [*lines, *(_columns_left_out([hidden], whole, width) if hidden and whole else ())]


def _table_lines(
    table: Table,
    width: int,
    *,
    top: int | None = None,
    time_unit: TimeUnit = "auto",
    rows_at: str | None = "",
) -> tuple[list[Line], int]:
    """Return the lines of a table, and the number of columns that are left out for width.

    ``rows_at`` says where the other rows are, if not in the report; None lets the title count the rows.
    """
    columns, shown = table.columns, table.first(top)
    cells, widths, rooms = _fitted(table, column_cells(shown, time_unit), width)
    kept = list(rooms)
    laid = [_lay_out(columns[i], cells[i], widths[i], rooms[i]) for i in kept if not columns[i].is_sentence]
    if columns[kept[-1]].is_sentence:
        taken = sum(screen_width(column[0]) + len(_GAP) for column in laid)
        laid.append(_paragraphs(columns[kept[-1]], cells[kept[-1]], taken, width))
    head, *body = (_GAP.join(row).rstrip() for row in zip(*laid, strict=True))
    remarks = [] if rows_at is None and len(table) else left_out(table, len(shown), rows_at or "")
    every = len(table) + table.left_out
    counts_rows = rows_at is None and top is not None and top < every
    lines = [
        title(table, width, f", {top} of {every:,} rows" if counts_rows else ""),
        rich_text.Text(head, style="underline"),
        *body,
        *_notes(table, remarks, width),
    ]
    return lines, len(columns) - len(kept)


def _fitted(
    table: Table, cells: list[list[str]], width: int
) -> tuple[list[list[str]], list[int], dict[int, int]]:
    """Return the cells, their widths, and the room of each column that is kept.

    Names that would be cut are abbreviated first. ``cells`` can lack rows of the table: kernels are numbered
    among all of them.
    """
    columns = table.columns
    while True:
        widths = [_width(column, texts) for column, texts in zip(columns, cells, strict=True)]
        rooms = _rooms(columns, widths, _fitting(columns, widths, width), width)
        shorter = [
            abbreviated(texts, rooms[i], table.names_of(column) if column.kernels else ())
            if i in rooms and column.unit is Unit.TEXT and not column.is_sentence
            else texts
            for i, (column, texts) in enumerate(zip(columns, cells, strict=True))
        ]
        if shorter == cells:
            return cells, widths, rooms
        cells = shorter


def fitted_columns(table: Table, cells: list[list[str]], width: int) -> dict[int, list[str]]:
    """Return the columns that fit into ``width`` by number, with their names shortened."""
    names = {
        i for i, column in enumerate(table.columns) if column.unit is Unit.TEXT and not column.is_sentence
    }
    short = [shorten_all(texts, _NAME_WIDTH) if i in names else texts for i, texts in enumerate(cells)]
    fitted, _, rooms = _fitted(table, short, width)
    return {i: shorten_all(fitted[i], room) if i in names else fitted[i] for i, room in rooms.items()}


def title(table: Table, width: int, remark: str = "") -> Text:
    """Return the line above a table."""
    line = rich_text.Text()
    line.append(table.schema.title, style="bold")
    line.append(f"  {table.label}{remark}", style="dim")
    if line.cell_len > width:
        line.truncate(width - len(ellipsis()))
        line.append(ellipsis())
    return line


def column_cells(table: Table, time_unit: TimeUnit) -> list[list[str]]:
    """Return the cells of each column as a person reads them."""
    rows = table.rows()
    turned = list(zip(*rows, strict=True)) or [()] * len(table.columns)
    return [
        _with_bars(values) if column.bar else [_cell(value, column, time_unit) for value in values]
        for column, values in zip(table.columns, turned, strict=True)
    ]


def _with_bars(percentages: Sequence[object]) -> list[str]:
    shares = [value if isinstance(value, float) else 0.0 for value in percentages]
    bars = ["█" * round(_BAR * share / 100) or "·" for share in shares]
    return [f"{human(share, Unit.PERCENT):>5} {bar:{_BAR}}" for share, bar in zip(shares, bars, strict=True)]


def heading(column: Column) -> str:
    """Return a column's header, with the sign that its cells leave out."""
    return f"{column.header} %" if column.unit is Unit.PERCENT else column.header


def left_out(table: Table, rows: int, whole: str = "") -> list[str]:
    """Return a remark that there are no rows, or how many there are beyond these ``rows``.

    ``whole`` says where they are, if not in the report.
    """
    if not len(table):
        return ["no rows"]
    more = len(table) + table.left_out - rows
    name = table.schema.name + table.suffix.replace("_", ":")
    return [f"{counted(more, 'more rows')} ({whole or f'-r {name}'})"] if more > 0 else []


def styled(lines: Iterable[Line], *, color: bool) -> str:
    """Return lines as text. Without ``color`` it has no escape sequences, with it none but its styles."""
    if not color:
        return "".join([printable(str(line), "\n") + "\n" for line in lines])
    out = io.StringIO()
    console = rich_console.Console(
        file=out,
        force_terminal=True,
        color_system="standard",
        no_color=False,  # whatever the environment says: the command has decided
        highlight=False,
    )
    for line in lines:
        text = printable(str(line), "\n")
        if isinstance(line, rich_text.Text):
            line.plain = text
            console.print(line, soft_wrap=True)
        else:
            out.write(f"{text}\n")
    return out.getvalue()


def wrapped(text: str, width: int, style: str, indent: str = "  ") -> list[Line]:
    """Wrap a sentence to lines of at most ``width`` columns. ``indent`` precedes all lines but the first."""
    lines = wrap(printable(text), width, indent)
    return [rich_text.Text(clip(line, width), style=style) for line in lines]


def headed(text: str, style: str, heading: str) -> Text:
    """Return a line in a style, with the heading that it begins with in bold; nothing if that was wrapped."""
    return _bold(text, style, len(f"{heading}:") if heading and text.startswith(f"{heading}: ") else 0)


def _bold(text: str, style: str, end: int) -> Text:
    line = rich_text.Text(text, style=style)
    line.stylize("bold", 0, end)
    return line


def _cell(value: object, column: Column, time_unit: TimeUnit) -> str:
    if column.unit is Unit.TEXT:
        if value is None:
            return "(no name)" if column.name.rpartition("_")[2] in NAMING else "-"
        return printable(str(value))
    if column.is_timestamp:
        return moment(value, time_unit)
    text = human(value, column.unit, time_unit)
    is_more = column.signed and isinstance(value, (int, float)) and value > 0 and text.strip("0.")
    return f"+{text}" if is_more else text


def _width(column: Column, cells: Sequence[str]) -> int:
    measure = screen_width if column.unit is Unit.TEXT else len  # no figure has a wide character
    return max([screen_width(heading(column)), *map(measure, cells)])


def _lay_out(column: Column, cells: Sequence[str], width: int, room: int) -> list[str]:
    if column.unit is not Unit.TEXT:
        return [text.rjust(width) for text in (heading(column), *cells)]
    texts = [heading(column), *shorten_all(cells, room)]
    taken = [screen_width(text) for text in texts]
    most = max(taken)
    return [text + " " * (most - width) for text, width in zip(texts, taken, strict=True)]


def _paragraphs(column: Column, cells: Sequence[str], taken: int, width: int) -> list[str]:
    """Return header and cells of a last column of sentences, wrapped behind what the others have taken."""
    room = max(width - taken, _NAME_LEAST)
    parted = (wrap(text, room) for text in cells)
    return [
        heading(column),
        *(f"\n{' ' * taken}".join(clip(line, room) for line in lines) for lines in parted),
    ]


def _fitting(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """Leave out columns by their drop order until the names have room; then any figures, from the right.

    A figure whose drop order is below 0 stays. Text columns except the first are left out before it.
    """
    kept = list(range(len(columns)))

    def needed(names: int) -> int:
        most = max(names, _least(columns, kept))
        taken = (min(widths[i], most) if columns[i].unit is Unit.TEXT else widths[i] for i in kept)
        return sum(taken) + len(_GAP) * (len(kept) - 1)

    for i in sorted(
        (i for i in kept if columns[i].drop_order > 0), key=lambda i: (-columns[i].drop_order, -i)
    ):
        if needed(_NAME_WIDTH) <= width:
            return kept
        kept.remove(i)
    stays = {i for i in kept if columns[i].drop_order < 0}
    figures = [i for i in reversed(kept) if columns[i].unit is not Unit.TEXT and i not in stays]
    names = [i for i in reversed(kept[1:]) if columns[i].unit is Unit.TEXT] if stays else []
    for i in [*figures, *names]:
        if needed(_name_least(width)) > width:
            kept.remove(i)
    return kept


def _name_least(width: int) -> int:
    return _NAME_MORE if width >= _WIDE else _NAME_LEAST


def _least(columns: Sequence[Column], kept: Sequence[int]) -> int:
    """Return the least width of a text column: the headers stay whole."""
    headers = (screen_width(heading(columns[i])) for i in kept if columns[i].unit is Unit.TEXT)
    return max(_NAME_LEAST, *headers, 0)


def _rooms(
    columns: Sequence[Column], widths: Sequence[int], kept: Sequence[int], width: int
) -> dict[int, int]:
    """Return the width of each column that is kept: the long text columns share what the others leave.

    A key has what the other texts leave at their least; sentences, which are wrapped, are narrow then.
    """
    least = _least(columns, kept)
    enough = max(least, _name_least(width))
    texts = sorted((i for i in kept if columns[i].unit is Unit.TEXT), key=lambda i: widths[i])
    rooms = {i: widths[i] for i in kept}
    left = width - sum(widths[i] for i in kept if i not in texts) - len(_GAP) * (len(kept) - 1)
    for i in [i for i in texts if columns[i].is_key]:
        texts.remove(i)
        beside = [max(enough, _SENTENCE if columns[other].is_sentence else 0) for other in texts]
        rooms[i] = min(widths[i], max(least, left // (len(texts) + 1), left - sum(beside)))
        left -= rooms[i]
    for number, i in enumerate(texts):
        others = len(texts) - number - 1
        whole = widths[i] <= _NAME_WHOLE and left - widths[i] >= enough * others
        if not whole and widths[i] > left // (others + 1):
            rooms[i] = max(least, left // (others + 1))
        left -= rooms[i]
    return rooms


def _notes(table: Table, remarks: Sequence[str], width: int) -> list[Line]:
    """Return the lines under a table: its verdict, what was left out, and the selection.

    The command line prints the table's notes, on stderr.
    """
    lines = [line for verdict in table.verdicts for line in wrapped(verdict, width, "")]
    lines += wrapped(f"… {'; '.join(remarks)}", width, "dim") if remarks else []
    if table.selection:
        lines += wrapped(f"selected: {table.selection}", width, "dim")
    return lines


def paragraph_lines(
    table: Table, width: int, *, top: int | None = None, time_unit: TimeUnit = "auto"
) -> tuple[list[Line], int]:
    """Return findings as paragraphs: what was found, the evidence, what to do, and when that is wrong.

    No column is left out.
    """
    lines: list[Line] = [title(table, width)]
    shown = table.first(top)
    for number, (one, paragraph) in enumerate(zip(shown.records(), shown.paragraphs, strict=True), 1):
        lines += [rich_text.Text(""), *_paragraph(number, one, paragraph, width, time_unit)]
    if table.selection:
        lines += wrapped(f"selected: {table.selection}", width, "dim")
    return (lines if len(table) else [*lines, *wrapped(NO_ADVICE, width, "")]), 0


def _paragraph(
    number: int, row: Mapping[str, object], paragraph: Paragraph, width: int, time_unit: TimeUnit
) -> list[Line]:
    capture = f"'{row['capture']}': " if "capture" in row else ""
    stake = row["at_stake_ns"]
    share = human(row["at_stake_percent"], Unit.PERCENT)
    saving = paragraph.saving.format(f"{human(stake, Unit.NS, time_unit)}, {share} %")
    saves = f" (saves {saving})" if stake is not None else ""
    what = printable(str(row["what"]))
    first, *rest = wrapped(f"{number}. {capture}{what}{saves}", width, "", indent="   ")
    bold = len(f"{number}. {capture}{f'{paragraph.heading}:' if paragraph.heading else what}")
    lines: list[Line] = [_bold(str(first), "", bold), *rest]
    for label, key in (("seen:  ", "evidence"), ("do:    ", "advice"), ("unless:", "unless")):
        lines += wrapped(f"   {label} {row[key]}", width, "", indent=" " * 11)
    lines.append(rich_text.Text(printable(f"   code:   {row['example']}")))  # whole, to be pasted
    if paragraph.others:
        shared = "; ".join(f"'{title}'" for title in paragraph.others)
        text = f"   note:   part of this time also counts for {shared}"
        lines += wrapped(text, width, "dim", indent=" " * 11)
    return [*lines, *wrapped(f"   rows:   -r {row['see']}", width, "dim")]


def _document(document: Document, layout: Layout) -> dict[str, str]:
    return render(
        document.tables, width=layout.width, color=layout.color, top=layout.top, time_unit=layout.time_unit
    )


FORMAT = Format(_document, for_people=True)
