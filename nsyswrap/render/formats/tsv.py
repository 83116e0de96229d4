"""CSV's cells with tabs between them: what pastes into a spreadsheet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.render.formats.csv import delimited

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nsyswrap.base.units import TimeUnit
    from nsyswrap.reports.table import Table


def render(tables: Iterable[Table], *, time_unit: TimeUnit = "ns", safe: bool = False) -> dict[str, str]:
    """Return ``{<report>.tsv: text}``; texts are quoted where a tab, a quote or a line's end is in them."""
    return {f"{table.label}.tsv": delimited(table, "\t", time_unit, safe=safe) for table in tables}
