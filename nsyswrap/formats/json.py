"""JSON: machine names, unrounded values, units said, missing as null."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nsyswrap.report import Table


def render(tables: Iterable[Table]) -> dict[str, str]:
    """Return ``{<report>.json: text}``: name, title, columns with units and help, rows as objects."""
    return {f"{table.report.name}.json": json.dumps(_document(table), indent=1) + "\n" for table in tables}


def as_one(tables: Sequence[Table]) -> str:
    """Return one document: the object of a single report, or an array of several."""
    documents = [_document(table) for table in tables]
    return json.dumps(documents if len(documents) != 1 else documents[0], indent=1) + "\n"


def _document(table: Table) -> dict[str, object]:
    columns = table.columns
    names = [column.name for column in columns]
    return {
        "report": table.report.name,
        "title": table.report.title,
        "columns": [{"name": c.name, "unit": c.unit.value, "help": c.help} for c in columns],
        "rows": [dict(zip(names, row, strict=True)) for row in table.rows()],
    }
