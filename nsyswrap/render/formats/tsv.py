"""TSV: the cells of CSV separated by tabs, to paste into a spreadsheet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.render.delimited import blocks
from nsyswrap.render.formats import Document, Format, Layout
from nsyswrap.render.formats.csv import delimited

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nsyswrap.base.units import TimeUnit
    from nsyswrap.reports.table import Table


def render(tables: Iterable[Table], *, time_unit: TimeUnit = "ns", safe: bool = False) -> dict[str, str]:
    """Return ``{<report>.tsv: text}``; cells with a tab, a quote or a line break are quoted."""
    return {f"{table.label}.tsv": delimited(table, "\t", time_unit, safe=safe) for table in tables}


def _document(document: Document, layout: Layout) -> dict[str, Iterator[bytes]]:
    return {
        f"{table.label}.tsv": blocks(table, "\t", layout.time_unit, safe=layout.csv_safe)
        for table in document.tables
    }


FORMAT = Format(_document, one_table=True)
