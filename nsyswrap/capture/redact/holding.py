"""Find the cells of an export that hold a value, quickly: the texts of many rows are searched at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from nsyswrap.base.sqlite import quoted, statement
from nsyswrap.capture import schema
from nsyswrap.capture.export import Export
from nsyswrap.capture.redact import places
from nsyswrap.capture.redact.search import ValueSearch

_ROWS = 5_000  # that are searched at once
_NUMBERS = (b"INTEGER", b"REAL", b"NUMERIC", b"FLOAT")  # declared types of columns without texts

Cells = dict[tuple[str, str], set[bytes]]


class _Block(NamedTuple):
    """Rows of a table: the texts of each column in one, and the condition that selects the rows."""

    texts: tuple[bytes | None, ...]
    where: str


def cells_that_hold(db: sqlite3.Connection, export: Export, search: ValueSearch) -> Cells:
    """Return the cells with a value in them, by table and column. Environments are left out.

    The connection has to return texts as bytes.
    """
    found: Cells = {}
    tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for table in (raw.decode() for (raw,) in tables if raw != schema.STRINGS.encode()):
        columns = _declared_texts(db, table)
        for block in _blocks(db, table, columns) if columns else ():
            for column, text in zip(columns, block.texts, strict=True):
                if text and search.held(text):
                    held = _cells(db, table, column, block.where, search)
                    found.setdefault((table, column), set()).update(held)
    if strings := _strings_that_hold(db, export, search):
        found[schema.STRINGS, "value"] = strings
    return {place: cells for place, cells in found.items() if cells}


def _declared_texts(db: sqlite3.Connection, table: str) -> list[str]:
    columns = db.execute(statement("PRAGMA table_info({table})", table=table)).fetchall()
    return [name.decode() for _, name, kind, *_ in columns if kind.upper() not in _NUMBERS]


def _blocks(db: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[_Block]:
    only = " AND ifnull(name, '') NOT LIKE '%environment%'" if table in places.NAMED_TABLES else ""
    joined = ", ".join(f"group_concat({quoted(column)}, char(10))" for column in columns)
    rows = statement('SELECT rowid AS "its row", {columns} FROM {table}', columns=columns, table=table)
    after, number = -(1 << 63), _ROWS
    while after is not None:
        some = f"{rows} WHERE rowid > {after}{only} LIMIT {number}"
        try:
            [(last, *texts)] = db.execute(f'SELECT max("its row"), {joined} FROM ({some})')  # noqa: S608 - quoted
        except sqlite3.DataError:  # more text than SQLite joins
            if number == 1:
                raise
            number = 1
            continue
        if last is not None:
            yield _Block(tuple(texts), f"rowid > {after} AND rowid <= {last}{only}")
        after = last


def _cells(db: sqlite3.Connection, table: str, column: str, where: str, search: ValueSearch) -> set[bytes]:
    sql = statement("SELECT CAST({c} AS BLOB) FROM {t} WHERE {c} >= '' AND ", c=column, t=table) + where
    return {cell for (cell,) in db.execute(sql) if search.held(cell)}


def _strings_that_hold(db: sqlite3.Connection, export: Export, search: ValueSearch) -> set[bytes]:
    """Return the texts of StringIds with a value, which the export has in memory already."""
    environments = set(places.environment_strings(export))
    texts = (text for i, text in export.strings.items() if i not in environments)
    while block := list(islice(texts, _ROWS)):
        if search.holds("\n".join(block)):
            return _cells(db, schema.STRINGS, "value", "id IS NOT NULL", search)
    return set()
