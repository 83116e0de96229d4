"""Tiny exports from plain rows: small enough that what a report says of them can be worked out on paper.

``write(path, kernel("add", 0, 50), call("cudaLaunchKernel", 0, 10))`` makes an SQLite file with the tables
its rows need and the columns its rows name, typed as nsys 2025 types them. Where nsys keeps the id of a
string a row may give the text itself (bytes: text that is no UTF-8), or an id from ``strings``.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.capture import Capture, KernelNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
API = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX = "NVTX_EVENTS"
DIAGNOSTIC = "DIAGNOSTIC_EVENT"
COPY_KINDS = "ENUM_CUDA_MEMCPY_OPER"

PID = 100  # of every row that names no other
_FIRST_ID = 1000  # of the texts that rows give themselves

_NAMES = ("demangledName", "shortName", "mangledName", "nameId")
_STRING_COLUMNS = (*_NAMES, "textId", "contentId", "filenameId", "module")
_TEXT_COLUMNS = ("value", "text", "name", "label", "utcTime", "filename")
_EVENT = ("start", "end")
_ON_GPU = (*_EVENT, "deviceId", "contextId", "streamId", "correlationId", "globalPid")
# What an empty table holds: the columns every nsys writes.
_COLUMNS = {
    KERNEL: (*_ON_GPU, "demangledName", "shortName", "mangledName"),
    MEMCPY: (*_ON_GPU, "bytes", "copyKind"),
    MEMSET: (*_ON_GPU, "bytes", "memKind"),
    API: (*_EVENT, "eventClass", "globalTid", "correlationId", "nameId", "returnValue"),
    NVTX: (*_EVENT, "eventType", "text", "globalTid", "textId", "domainId"),
    DIAGNOSTIC: ("timestamp", "severity", "text", "globalPid"),
}


class Row(NamedTuple):
    """One row of one table."""

    table: str
    cells: dict[str, object]


def global_id(pid: int, tid: int = 0, hardware: int = 1) -> int:
    """A process or thread as nsys numbers it; SQLite keeps what is above 2^63 as a negative number."""
    number = hardware << 56 | pid << 24 | tid
    return number - (1 << 64) if number >= 1 << 63 else number


def row(table: str, **cells: object) -> Row:
    return Row(table, cells)


def kernel(
    name: str | bytes | int,
    start: int,
    end: int,
    correlation: int | None = 0,
    *,
    pid: int = PID,
    **more: object,
) -> Row:
    names = {"demangledName": name, "shortName": name, "mangledName": name}
    shape = dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 1)
    return Row(KERNEL, {**_gpu_operation(start, end, correlation, pid), **names, **shape, **more})


def call(  # noqa: PLR0913 - what a call is known by
    name: str | bytes | int,
    start: int,
    end: int,
    correlation: int | None = 0,
    *,
    pid: int = PID,
    tid: int = 0,
    **more: object,
) -> Row:
    thread = global_id(pid, tid or pid)
    cells = {"eventClass": 0, "globalTid": thread, "correlationId": correlation, "nameId": name}
    return Row(API, {"start": start, "end": end, **cells, "returnValue": 0, **more})


def graph(start: int, end: int, correlation: int, **more: object) -> Row:
    return Row(
        GRAPH, {**_gpu_operation(start, end, correlation, PID), "graphId": 1, "graphExecId": 2, **more}
    )


def memcpy(kind: int, start: int, end: int, size: int, **more: object) -> Row:
    return Row(MEMCPY, {**_gpu_operation(start, end, 0, PID), "bytes": size, "copyKind": kind, **more})


def memset(start: int, end: int, size: int, **more: object) -> Row:
    return Row(MEMSET, {**_gpu_operation(start, end, 0, PID), "bytes": size, "memKind": 2, **more})


def nvtx(text: str | None, start: int, end: int | None, tid: int = PID, **more: object) -> Row:
    cells = {"text": text, "textId": None, "eventType": 59, "globalTid": global_id(PID, tid), "domainId": 0}
    return Row(NVTX, {"start": start, "end": end, **cells, **more})


def diagnostic(text: str, severity: int = 2) -> Row:
    return Row(DIAGNOSTIC, {"timestamp": 0, "severity": severity, "text": text, "globalPid": global_id(PID)})


def write(
    path: Path,
    *rows: Row,
    strings: Mapping[int, str | bytes] | None = None,
    empty: Iterable[str] = (),
    without: Iterable[str] = (),
) -> Path:
    """Write an export: ``empty`` tables hold no row; the columns in ``without`` are in none."""
    ids = {text: i for i, text in (strings or {}).items()}
    tables: dict[str, list[dict[str, object]]] = {table: [] for table in empty}
    for table, cells in rows:
        tables.setdefault(table, []).append(_interned(cells, ids))
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    for i, text in {**(strings or {}), **{i: text for text, i in ids.items()}}.items():
        raw = text if isinstance(text, bytes) else text.encode()
        db.execute("INSERT INTO StringIds VALUES (?, CAST(? AS TEXT))", (i, raw))
    for table, contents in tables.items():
        _fill(db, table, contents, set(without))
    db.commit()
    db.close()
    return path


def opened(folder: Path, *rows: Row, names: KernelNames = "full", **options: object) -> Capture:
    """Write an export into ``folder`` and open it."""
    return Capture(write(folder / "tiny.sqlite", *rows, **options), names)  # type: ignore[arg-type]


def _gpu_operation(start: int, end: int, correlation: int | None, pid: int) -> dict[str, object]:
    place = {"deviceId": 0, "contextId": 1, "streamId": 7}
    return {
        "start": start,
        "end": end,
        **place,
        "correlationId": correlation,
        "globalPid": global_id(pid),
    }


def _interned(cells: Mapping[str, object], ids: dict[str | bytes, int]) -> dict[str, object]:
    """Replace the texts of string columns by their ids, new ones in order of appearance."""
    return {
        column: ids.setdefault(cell, _FIRST_ID + len(ids))
        if column in _STRING_COLUMNS and isinstance(cell, (str, bytes))
        else cell
        for column, cell in cells.items()
    }


def _fill(
    db: sqlite3.Connection, table: str, rows: Iterable[Mapping[str, object]], without: set[str]
) -> None:
    rows = list(rows)
    named = [column for cells in rows for column in cells] or _COLUMNS[table]
    columns = [column for column in dict.fromkeys(named) if column not in without]
    typed = (f'"{column}" {"TEXT" if column in _TEXT_COLUMNS else "INTEGER"}' for column in columns)
    db.execute(f'CREATE TABLE "{table}" ({", ".join(typed)})')
    marks = ", ".join("?" * len(columns))
    values = [tuple(cells.get(column) for column in columns) for cells in rows]
    db.executemany(f'INSERT INTO "{table}" VALUES ({marks})', values)  # noqa: S608 - names of this file
