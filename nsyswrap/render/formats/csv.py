"""nsys' CSV: the same headers, order, rounding and quoting as ``nsys stats --format csv``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from nsyswrap.base.units import TimeUnit
from nsyswrap.render.delimited import blocks
from nsyswrap.render.formats import Document, Format, Layout
from nsyswrap.reports.table import Table


def render(
    tables: Iterable[Table],
    *,
    time_unit: TimeUnit = "ns",
    safe: bool = False,
    delimiter: str = ",",
    ending: str = "csv",
) -> dict[str, str]:
    """Return ``{<report>.<ending>: text}``. Values of nsyswrap's own reports are not rounded.

    ``safe`` guards texts that a spreadsheet would run as formulas, a terminal or GitHub as commands.
    """
    return {f"{table.label}.{ending}": delimited(table, delimiter, time_unit, safe=safe) for table in tables}


def delimited(table: Table, delimiter: str, time_unit: TimeUnit, *, safe: bool) -> str:
    """Return header and rows; cells with a delimiter, a quote or a line break are quoted."""
    return b"".join(blocks(table, delimiter, time_unit, safe=safe)).decode("utf-8", "surrogateescape")


def in_blocks(document: Document, layout: Layout, delimiter: str, ending: str) -> dict[str, Iterator[bytes]]:
    """Return ``{<report>.<ending>: content}``, each content in blocks."""
    return {
        f"{table.label}.{ending}": blocks(table, delimiter, layout.time_unit, safe=layout.csv_safe)
        for table in document.tables
    }


FORMAT = Format(partial(in_blocks, delimiter=",", ending="csv"), one_table=True)
