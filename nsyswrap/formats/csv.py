"""nsys' CSV: the same headers, order, rounding and quoting as ``nsys stats --format csv``."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from nsyswrap.units import TimeUnit, csv_cell, csv_label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nsyswrap.report import Table


def render(tables: Iterable[Table], *, time_unit: TimeUnit = "ns") -> dict[str, str]:
    """Return ``{<report>.csv: text}``. Analysis reports keep their values unrounded."""
    return {f"{table.label}.csv": _csv(table, time_unit) for table in tables}


def _csv(table: Table, time_unit: TimeUnit) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = table.columns
    if table.report.layer == "analysis":
        writer.writerow([column.name for column in columns])
        writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows())
        return out.getvalue()
    writer.writerow([column.header + csv_label(column.unit, time_unit) for column in columns])
    for row in table.rows():
        cells = zip(row, columns, strict=True)
        writer.writerow([csv_cell(cell, column.unit, table.rounding, time_unit) for cell, column in cells])
    return out.getvalue()
