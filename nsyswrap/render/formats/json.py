"""JSON: one envelope for any report of any number of captures; values unrounded, missing as null.

Its JSON Schema is ``reports.schema.json``, beside this module.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from nsyswrap.base.version import __version__
from nsyswrap.capture.selection import EVERYTHING, Selection
from nsyswrap.reports.combine import combine
from nsyswrap.reports.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports import Request

FORMAT = "nsyswrap-reports"
VERSION = 1  # goes up with every key that comes, goes or changes its meaning


def render(tables: Iterable[Table]) -> dict[str, str]:
    """Return ``{<report>.json: text}``, an envelope each."""
    return {f"{table.label}.json": as_one([table]) for table in tables}


def as_one(
    tables: Sequence[Table],
    *,
    captures: Sequence[tuple[str, Capture]] = (),
    selection: Selection = EVERYTHING,
    missing: Sequence[tuple[Request, str]] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return one envelope: the captures by label, what was selected of them, and the reports.

    ``missing`` are requests that a capture could not answer, and why: the report's notes say so, and where
    no capture could answer it, it stands there without rows.
    """
    reports = {table.label: _document(table) for table in tables}
    for request, why in missing:
        label = request.report.name + request.suffix
        if label not in reports:
            reports[label] = _document(_no_rows(request, captures))
        reports[label]["notes"].append(f"not collected: {why}")
    return (
        _written(
            {
                "format": FORMAT,
                "version": VERSION,
                "tool": {"name": "nsyswrap", "version": __version__},
                "captures": [describe(label, capture) for label, capture in captures],
                "window": _window(selection),
                "reports": list(reports.values()),
                "notes": list(notes),
            }
        )
        + "\n"
    )


def describe(label: str, capture: Capture) -> dict[str, Any]:
    """Return what a capture says of itself; what it does not say is None."""
    info = capture.info
    return {
        "label": label,
        "path": str(capture.source),
        "exporter_version": info.exporter_version or None,
        "schema_version": info.schema_version or None,
        "gpus": list(info.gpus),
        "driver_version": info.driver_version or None,
        "cuda_version": info.cuda_version or None,
        "started_utc": info.started_utc or None,
    }


def _window(selection: Selection) -> dict[str, Any]:
    ends = [selection.start_ns, selection.end_ns]
    return {
        "time": None if ends == [None, None] else ends,
        "nvtx": selection.nvtx or None,
        "devices": list(selection.devices),
        "processes": list(selection.processes),
        "clip": selection.clip,
    }


def _document(table: Table) -> dict[str, Any]:
    names = [column.name for column in table.columns]
    return {
        "name": table.report.name,
        "label": table.label,
        "title": table.report.title,
        "layer": table.report.layer,
        "rounding": table.rounding,
        "columns": [
            {"name": column.name, "header": column.header, "unit": column.unit.value, "help": column.help}
            for column in table.columns
        ],
        "rows": [dict(zip(names, row, strict=True)) for row in table.rows()],
        "verdict": table.verdict or None,
        "notes": list(table.notes),
    }


def _no_rows(request: Request, captures: Sequence[tuple[str, Capture]]) -> Table:
    """Return the table of a report that no capture could answer, with the columns it would have."""
    nothing: dict[str, list[str | None]] = {column.name: [] for column in request.report.columns}
    rounding = captures[0][1].view.rounding if captures else "2025"
    table = Table(request.report, nothing, rounding, suffix=request.suffix)
    return combine([("", table)]) if len(captures) > 1 else table


def _written(value: Any, indent: str = "") -> str:  # noqa: ANN401 - what JSON holds
    """Write what holds no list or object on one line, as a row or a column, and all else as a block."""
    inner = f"{indent} "
    if isinstance(value, dict) and _nested(value.values()):
        parts = [f"{json.dumps(key)}: {_written(item, inner)}" for key, item in value.items()]
    elif isinstance(value, list) and _nested(value):
        parts = [_written(item, inner) for item in value]
    else:
        return _line(value)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closing}"


def _nested(items: Iterable[object]) -> bool:
    return any(isinstance(item, (dict, list)) for item in items)


def _line(value: Any) -> str:  # noqa: ANN401 - what JSON holds
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:  # JSON knows no infinity
        return json.dumps(
            {key: None if item in (math.inf, -math.inf) else item for key, item in value.items()}
        )
