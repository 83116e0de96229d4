"""The events of an export, read row by row from SQLite, for second opinions that share no code with nsyswrap.

Only the rules that put a *name* into a class (of kernels, of API calls) are nsyswrap's own.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tiny_export import API, GRAPH, KERNEL, MEMCPY, MEMSET, NVTX

from nsyswrap.analysis.kernel_names import classify as class_of_kernel
from nsyswrap.analysis.names import call_class as class_of_call

TABLES = (KERNEL, MEMCPY, MEMSET, GRAPH)  # in the order in which operations with equal starts come
PROCESS = ~0xFFFFFF
MIGRATIONS = (11, 12, 13)
QUEUE_FULL = 8


class Call(NamedTuple):
    """An API call: its row, times, thread, and name."""

    row: int
    start: int
    end: int
    thread: int
    name: str


class Operation(NamedTuple):
    """A GPU operation, by start; ``graph`` is the id of the graph that it is, or is a node of."""

    start: int
    table: int
    row: int
    end: int
    process: int
    device: int
    stream: tuple[int, ...]
    name: str
    copy_kind: int
    graph: int | None
    call: Call | None

    @property
    def state(self) -> str:
        """What the device does: the class of the kernel, or another state of a busy GPU."""
        if TABLES[self.table] == KERNEL:
            kind = class_of_kernel(self.name)
            return kind if kind == "communication" else f"{kind}_kernel"
        return "graph" if TABLES[self.table] == GRAPH else "memcpy"

    @property
    def migration(self) -> bool:
        return TABLES[self.table] == MEMCPY and self.copy_kind in MIGRATIONS


class Range(NamedTuple):
    """A closed NVTX range on one thread."""

    start: int
    end: int
    thread: int
    name: str
    domain: int


class Events(NamedTuple):
    """All events; ``doing`` is what threads did: thread, start, end, activity."""

    operations: list[Operation]
    calls: list[Call]
    doing: list[tuple[int, int, int, str]]
    ranges: list[Range]


def read_events(path: Path) -> Events:
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        db.text_factory = lambda raw: raw.decode(errors="replace")
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        texts = dict(db.execute("SELECT id, value FROM StringIds").fetchall())

        def rows(table: str) -> list[dict[str, object]]:
            return [dict(row) for row in db.execute(f'SELECT * FROM "{table}"')] if table in tables else []  # noqa: S608

        api = rows(API)
        calls = [
            Call(i, row["start"], row["end"], row["globalTid"], texts[row["nameId"]])  # type: ignore[arg-type]
            for i, row in enumerate(api)
        ]
        callers: dict[tuple[object, int], list[Call]] = {}
        for row, call in zip(api, calls, strict=True):
            callers.setdefault((row["correlationId"], call.thread & PROCESS), []).append(call)
        outermost = {
            key: min(found, key=lambda call: (call.start, -call.end, call.row))
            for key, found in callers.items()
        }
        operations = sorted(
            _operation(table, i, row, texts, outermost)
            for table, name in enumerate(TABLES)
            for i, row in enumerate(rows(name))
        )
        doing = [(call.thread, call.start, call.end, _activity(call.name)) for call in calls]
        doing += [_overhead(row, "profiler") for row in rows("PROFILER_OVERHEAD")]
        doing += [
            _overhead(row, "launch" if row.get("overheadType") == QUEUE_FULL else "load")
            for row in rows("CUPTI_ACTIVITY_KIND_OVERHEAD")
        ]
        ranges = [_range(row, texts) for row in rows(NVTX) if _closed(row)]
        return Events(operations, calls, doing, sorted(ranges, key=lambda one: (one.start, -one.end)))


def _operation(
    table: int,
    number: int,
    row: dict[str, object],
    texts: dict[int, str],
    outermost: dict[tuple[object, int], Call],
) -> Operation:
    cell: dict[str, int] = row  # type: ignore[assignment]
    graph = row.get("graphExecId") if TABLES[table] == GRAPH else None
    if row.get("graphNodeId"):
        graph = cell["graphNodeId"] >> 32
    one = Operation(
        *(cell["start"], table, number, cell["end"], cell["globalPid"], cell["deviceId"]),
        (cell["globalPid"], cell["deviceId"], cell["contextId"], cell["streamId"]),
        texts[cell["demangledName"]] if TABLES[table] == KERNEL else "",
        cell.get("copyKind", -1),
        graph,  # type: ignore[arg-type]
        None,
    )
    return one if one.migration else one._replace(call=outermost.get((cell["correlationId"], one.process)))


def _overhead(row: dict[str, object], activity: str) -> tuple[int, int, int, str]:
    return row["globalTid"], row["start"], row["end"], activity  # type: ignore[return-value]


def _activity(name: str) -> str:
    return {"other": "call"}.get(class_of_call(name), class_of_call(name))


def _closed(row: dict[str, object]) -> bool:
    here = row.get("endGlobalTid") in (None, row["globalTid"])
    return row["eventType"] in (59, 60, 70, 71) and row["end"] is not None and here


def _range(row: dict[str, object], texts: dict[int, str]) -> Range:
    cell: dict[str, int] = row  # type: ignore[assignment]
    name = row["text"] if row["text"] is not None else texts.get(cell["textId"], "")
    return Range(cell["start"], cell["end"], cell["globalTid"], str(name), cell.get("domainId") or 0)
