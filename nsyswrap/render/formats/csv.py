"""nsys' CSV: the same headers, order, rounding and quoting as ``nsys stats --format csv``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nsyswrap.base.units import TimeUnit, Unit, csv_cells, csv_label
from nsyswrap.render.formats import Document, Format, Layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nsyswrap.reports.table import Table

# A spreadsheet runs a cell that begins like this as a formula; some skip blanks before it.
_FORMULA = re.compile(r"[\t\r\n]|\s*[=+\-@＝＋－＠]")  # noqa: RUF001 - full-width signs count too


def render(tables: Iterable[Table], *, time_unit: TimeUnit = "ns", safe: bool = False) -> dict[str, str]:
    """Return ``{<report>.csv: text}``. Values of nsyswrap's own reports are not rounded.

    ``safe`` puts a single quote before texts that a spreadsheet would run as a formula.
    """
    return {f"{table.label}.csv": delimited(table, ",", time_unit, safe=safe) for table in tables}


def _document(document: Document, layout: Layout) -> dict[str, str]:
    return render(document.tables, time_unit=layout.time_unit, safe=layout.csv_safe)


def delimited(table: Table, delimiter: str, time_unit: TimeUnit, *, safe: bool) -> str:
    """Return header and rows; cells with a delimiter, a quote or a line break are quoted."""
    special = re.compile(f'[{delimiter}"\r\n]')
    header, *columns = _csv(table, time_unit)
    for i, column in enumerate(table.columns):
        if column.unit is Unit.TEXT:
            columns[i] = [_quoted(_guarded(text) if safe else text, special) for text in columns[i]]
    rows = ([_quoted(text, special) for text in header], *zip(*columns, strict=True))
    return "\n".join(map(delimiter.join, rows)) + "\n"


def _csv(table: Table, time_unit: TimeUnit) -> list[Sequence[str]]:
    """Return the header's cells, then the cells of each column."""
    columns = table.columns
    values = list(zip(*table.rows(), strict=True)) or [()] * len(columns)
    if table.schema.layer == "analysis":
        cells = [["" if value is None else str(value) for value in part] for part in values]
        return [[column.name for column in columns], *cells]
    header = [column.header + csv_label(column.unit, time_unit) for column in columns]
    units = [column.unit for column in columns]
    cells = [csv_cells(*pair, table.rounding, time_unit) for pair in zip(values, units, strict=True)]
    return [header, *cells]


def _quoted(text: str, special: re.Pattern[str]) -> str:
    return '"' + text.replace('"', '""') + '"' if special.search(text) else text


def _guarded(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) else text


FORMAT = Format(_document, one_table=True)
