"""JSON: one envelope for any reports of any number of captures. Values are unrounded, missing ones null.

The JSON Schema is ``reports.schema.json`` beside this module.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nsyswrap.analysis.answer import Answer
from nsyswrap.base.version import version
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.selection import EVERYTHING, Selection
from nsyswrap.render.formats import Document, Format
from nsyswrap.render.formats.csv import rows_in_blocks
from nsyswrap.reports.answer import as_dict
from nsyswrap.reports.make import MissingReport, combine
from nsyswrap.reports.table import Table

ENVELOPE = "nsyswrap-reports"
_OF_UNREAD = ("label", "path", "reason", "exit_code")
VERSION = 4  # raised with every key that is added, removed or changes its meaning, once in a release


def render(tables: Iterable[Table]) -> dict[str, str]:
    """Return ``{<report>.json: text}``, each with an envelope of its own."""
    return {f"{table.label}.json": as_one([table]) for table in tables}


def as_one(tables: Sequence[Table], **about: Any) -> str:
    """Return what ``envelope`` yields for these tables. ``about`` are other fields of the document."""
    return b"".join(envelope(Document(tables, **about))).decode()


def envelope(document: Document) -> Iterator[bytes]:
    """Yield one envelope: the captures by label, the selection, the reports, and what cannot be read.

    The notes of a report say which captures could not answer it. A report that no capture could answer has
    no rows.
    """
    reports = {table.label: _report(table) for table in document.tables}
    captures, answers = list(document.captures.items()), document.answers
    for report in document.missing:
        if report.label not in reports:
            reports[report.label] = _report(_no_rows(report, document))
        reports[report.label]["notes"].append(f"not collected: {report.reason}")
    return _written(
        {
            "format": ENVELOPE,
            "version": VERSION,
            "tool": {"name": "nsyswrap", "version": version()},
            "captures": [
                describe(label, capture, answers.get(label, (None,))[0]) for label, capture in captures
            ],
            "window": _window(document.selection or EVERYTHING),
            "reports": list(reports.values()),
            "notes": [f"{label}: {remark}" for label, capture in captures for remark in capture.remarks],
            "not_read": [{key: getattr(one, key) for key in _OF_UNREAD} for one in document.not_read],
            **({"job": as_dict(document.job[0])} if document.job else {}),
        }
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
        "rows": table if len(table) else [],
        "verdict": table.verdict or None,
        "notes": list(table.notes),
    }


def _no_rows(missing: MissingReport, document: Document) -> Table:
    nothing: dict[str, list[str | None]] = {column.name: [] for column in missing.schema.columns}
    first = next(iter(document.captures.values()), None)
    rounding = first.view.rounding if first else "2025"
    table = Table(missing.schema, nothing, rounding, suffix=missing.suffix)
    return combine([("", table)]) if len(document.captures) + len(document.not_read) > 1 else table


def _written(value: object, indent: str = "") -> Iterator[bytes]:
    """Yield a value on one line, or as a block if it holds a list, an object or the rows of a table."""
    inner = f"{indent} "
    if isinstance(value, Table):
        yield f"[\n{inner}".encode()
        yield from _rows(value, f",\n{inner}".encode())
        yield f"\n{indent}]".encode()
    elif isinstance(value, (dict, list)) and _nested(value.values() if isinstance(value, dict) else value):
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        items = value.items() if isinstance(value, dict) else [(None, item) for item in value]
        between = f"{opening}\n{inner}"
        for key, item in items:
            yield (between if key is None else f"{between}{json.dumps(key)}: ").encode()
            yield from _written(item, inner)
            between = f",\n{inner}"
        yield f"\n{indent}{closing}".encode()
    else:
        yield _line(value).encode()
    if not indent:
        yield b"\n"


def _rows(table: Table, separator: bytes) -> Iterator[bytes]:
    keys = [f"{json.dumps(column.name)}: ".encode() for column in table.columns]
    between = [b"{" + keys[0], *(b", " + key for key in keys[1:]), b"}" + separator]
    last = b""
    for block in rows_in_blocks(table, between, lambda _: ((1, 0), _line, False), _text, b"null"):
        yield last
        last = block
    yield last.removesuffix(separator)


def _text(text: str | None) -> bytes:
    return json.dumps(text).encode()


def _nested(items: Iterable[object]) -> bool:
    return any(isinstance(item, (dict, list, Table)) for item in items)


def _line(value: object) -> str:
    if isinstance(value, float) and math.isinf(value):  # JSON has no infinity
        return "null"
    return json.dumps(value, allow_nan=False)


FORMAT = Format(lambda document, _: {"reports.json": envelope(document)}, has_envelope=True, has_answers=True)
