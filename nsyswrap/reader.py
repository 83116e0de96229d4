"""Columns out of an SQLite export, as numpy arrays.

The file is opened read-only and immutable: SQLite takes no lock and writes no byte into it or beside it.
Every column is read once per ``Export`` and shared; the arrays are read-only.
"""

from __future__ import annotations

import sqlite3
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.errors import DamagedCapture, NotACapture
from nsyswrap.schema import CAPTURE_MARKS, STRINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nsyswrap.schema import FieldKind

# Stands for SQL NULL in an integer column: ids stay integers, without a round trip through floats.
NULL = int(np.iinfo(np.int64).min)

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_CHUNK_ROWS = 1000  # more at a time takes twice as long: the rows fall out of the processor's cache


class Export:
    """An open SQLite export: ``tables`` maps each table to its columns."""

    def __init__(self, path: Path) -> None:
        """Open ``path``; raises NotACapture or DamagedCapture with what the file is instead."""
        self.path = path
        _check_header(path)
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        self._db = sqlite3.connect(uri, uri=True, check_same_thread=False)
        weakref.finalize(self, self._db.close)  # captures are dropped without a word, in any thread
        # Kernel names can hold bytes that are no UTF-8; escapes keep different names different.
        self._db.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
        self._columns: dict[tuple[str, str], NDArray[Any]] = {}
        self._counts: dict[str, int] = {}
        self._strings: dict[int, str] | None = None
        self.tables = self._read_tables()
        if STRINGS not in self.tables or not any(t.startswith(CAPTURE_MARKS) for t in self.tables):
            self.close()
            raise NotACapture(
                f"{path} is an SQLite database, but no Nsight Systems export (it has no {STRINGS} with CUDA "
                "or NVTX tables): give a .sqlite made by `nsys export` or `nsys profile --stats=true`"
            )

    def close(self) -> None:
        """Close the file; arrays handed out stay valid."""
        self._db.close()

    def count(self, table: str) -> int:
        """Return the number of rows; 0 for a table that is not there (exports are lazy)."""
        if table not in self.tables:
            return 0
        if table not in self._counts:
            self._counts[table] = int(self.rows(f'SELECT count(*) FROM "{table}"')[0][0])  # noqa: S608
        return self._counts[table]

    def columns(self, table: str, wanted: Sequence[tuple[str, FieldKind]]) -> list[NDArray[Any]]:
        """Return the columns in row order: int64 (``NULL`` for SQL NULL), or objects for ``text``."""
        missing = [item for item in wanted if (table, item[0]) not in self._columns]
        if missing:
            self._load(table, missing)
        return [self._columns[table, name] for name, _ in wanted]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query over a small table."""
        with self._damage_named():
            return self._db.execute(sql).fetchall()

    def select(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return rows of a small table; none where the table or a column is missing."""
        if not set(columns) <= set(self.tables.get(table, ())):
            return []
        return self.rows(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608 - names of schema.py

    @property
    def strings(self) -> dict[int, str]:
        """StringIds: id to text, read once."""
        if self._strings is None:
            self._strings = {i: v for i, v in self.rows(f"SELECT id, value FROM {STRINGS}") if v is not None}  # noqa: S608
        return self._strings

    def _read_tables(self) -> dict[str, list[str]]:
        names = self.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        return {name: [row[1] for row in self.rows(f'PRAGMA table_info("{name}")')] for (name,) in names}

    def _load(self, table: str, wanted: Sequence[tuple[str, FieldKind]]) -> None:
        sql = "SELECT {} FROM {}".format(", ".join(f'"{name}"' for name, _ in wanted), f'"{table}"')  # noqa: S608
        parts: list[list[NDArray[Any]]] = [[_empty(kind)] for _, kind in wanted]
        with self._damage_named():
            cursor = self._db.execute(sql)
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                for part, values, (name, kind) in zip(parts, zip(*rows, strict=True), wanted, strict=True):
                    part.append(self._array(values, kind, f"{table}.{name}"))
        for part, (name, _) in zip(parts, wanted, strict=True):
            array = np.concatenate(part)
            array.flags.writeable = False
            self._columns[table, name] = array

    def _array(self, values: tuple[Any, ...], kind: FieldKind, where: str) -> NDArray[Any]:
        if kind == "text":
            array = np.empty(len(values), dtype=object)
            array[:] = values
            return array
        try:
            if None in values:
                values = tuple(NULL if value is None else value for value in values)
            return np.fromiter(values, np.int64, len(values))
        except (TypeError, ValueError) as error:
            raise DamagedCapture(
                f"{self.path}: {where} holds something that is no integer ({error})"
            ) from None

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise DamagedCapture(
                f"{self.path} cannot be read: {error}", "export the .nsys-rep again with `nsys export`"
            ) from None


def _empty(kind: FieldKind) -> NDArray[Any]:
    return np.empty(0, dtype=object if kind == "text" else np.int64)


def _check_header(path: Path) -> None:
    """Tell a directory, an empty, a foreign and a cut-off file apart before SQLite sees it."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        size = path.stat().st_size
    except OSError as error:
        raise NotACapture(f"{path}: {error.strerror}") from None
    if not size:
        raise NotACapture(f"{path} is empty (0 bytes)", "nsys may have been interrupted; profile again")
    if not header.startswith(_MAGIC):
        raise NotACapture(f"{path} is no SQLite database", "give a .sqlite, a .nsys-rep or a run folder")
    page = int.from_bytes(header[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    if size < expected:
        raise DamagedCapture(
            f"{path} is cut off: {size:,} of {expected:,} bytes",
            "copy it again, or export the .nsys-rep again",
        )
