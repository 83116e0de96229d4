"""JSON: one envelope for any reports of any number of captures. Values are unrounded, missing ones null.

The JSON Schema is ``reports.schema.json`` beside this module.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from nsyswrap.base.version import __version__
from nsyswrap.capture.selection import EVERYTHING, Selection
from nsyswrap.render.formats import Document, Format, Layout
from nsyswrap.reports.answer import as_dict
from nsyswrap.reports.combine import combine
from nsyswrap.reports.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nsyswrap.analysis.answer import Answer
    from nsyswrap.capture.capture import Capture
    from nsyswrap.reports.answer import Line
    from nsyswrap.reports.make import Missing

ENVELOPE = "nsyswrap-reports"
VERSION = 2  # raised with every key that is added, removed or changes its meaning


def render(tables: Iterable[Table]) -> dict[str, str]:
    """Return ``{<report>.json: text}``, each with an envelope of its own."""
    return {f"{table.label}.json": as_one([table]) for table in tables}


def as_one(
    tables: Sequence[Table],
    *,
    captures: Sequence[tuple[str, Capture]] = (),
    selection: Selection = EVERYTHING,
    missing: Sequence[Missing] = (),
    answers: Mapping[str, tuple[Answer | None, Sequence[Line]]] | None = None,
) -> str:
    """Return one envelope: the captures by label, the selection and the reports.

    The notes of a report say which captures could not answer it. A report that no capture could answer has
    no rows.
    """
    reports = {table.label: _report(table) for table in tables}
    for report in missing:
        if report.label not in reports:
            reports[report.label] = _report(_no_rows(report, captures))
        reports[report.label]["notes"].append(f"not collected: {report.reason}")
    notes = [f"{label}: {remark}" for label, capture in captures for remark in capture.remarks]
    return (
        _written(
            {
                "format": ENVELOPE,
                "version": VERSION,
                "tool": {"name": "nsyswrap", "version": __version__},
                "captures": [
                    describe(label, capture, (answers or {}).get(label, (None,))[0])
                    for label, capture in captures
                ],
                "window": _window(selection),
                "reports": list(reports.values()),
                "notes": notes,
            }
        )
        + "\n"
    )


def describe(label: str, capture: Capture, answer: Answer | None = None) -> dict[str, Any]:
    """Return the facts a capture holds about itself; those it lacks are None."""
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
        "answer": None if answer is None else as_dict(answer),
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


def _report(table: Table) -> dict[str, Any]:
    names = [column.name for column in table.columns]
    return {
        "name": table.schema.name,
        "label": table.label,
        "title": table.schema.title,
        "layer": table.schema.layer,
        "rounding": table.rounding,
        "columns": [
            {"name": column.name, "header": column.header, "unit": column.unit.value, "help": column.help}
            for column in table.columns
        ],
        "rows": [dict(zip(names, row, strict=True)) for row in table.rows()],
        "verdict": table.verdict or None,
        "notes": list(table.notes),
    }


def _no_rows(missing: Missing, captures: Sequence[tuple[str, Capture]]) -> Table:
    """Return a table without rows for a report that no capture could answer."""
    nothing: dict[str, list[str | None]] = {column.name: [] for column in missing.schema.columns}
    rounding = captures[0][1].view.rounding if captures else "2025"
    table = Table(missing.schema, nothing, rounding, suffix=missing.suffix)
    return combine([("", table)]) if len(captures) > 1 else table


def _written(value: object, indent: str = "") -> str:
    """Write a value on one line, or as a block if it holds a list or an object."""
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


def _line(value: object) -> str:
    if isinstance(value, dict):  # JSON has no infinity
        value = {key: None if item in (math.inf, -math.inf) else item for key, item in value.items()}
    return json.dumps(value, allow_nan=False)


def _document(document: Document, _: Layout) -> dict[str, str]:
    text = as_one(
        document.tables,
        captures=list(document.captures.items()),
        selection=document.selection or EVERYTHING,
        missing=document.missing,
        answers=document.answers,
    )
    return {"reports.json": text}


FORMAT = Format(_document, has_envelope=True, has_answers=True)
