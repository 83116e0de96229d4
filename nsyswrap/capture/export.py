"""Columns out of an SQLite export, as numpy arrays.

The file is opened read-only and immutable: SQLite takes no lock and writes no byte into it or beside it.
Where it was not closed properly a private copy is read. Every column is read once per ``Export`` and shared;
the arrays are read-only. Integers of large tables come straight out of the pages, all else by way of SQLite.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import weakref
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.errors import DamagedCapture, NotACapture, OutputError
from nsyswrap.base.missing import MISSING
from nsyswrap.capture import sqlite_pages
from nsyswrap.capture.schema import CAPTURE_MARKS, STRINGS
from nsyswrap.capture.sqlite_pages import Leaves, PageFile, find_leaves, quoted, read_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.schema import FieldKind

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_CHUNK_ROWS = 1000  # more at a time takes twice as long: the rows fall out of the processor's cache


class Export:
    """An open SQLite export: ``tables`` maps each table to its columns.

    ``file`` is what is read: ``path``, or a private copy of it; then ``note`` says why. ``by_sqlite`` says
    why integers of a table were read by way of SQLite.
    """

    def __init__(self, path: Path) -> None:
        """Open ``path``; raises NotACapture or DamagedCapture with what the file is instead."""
        self.path = path
        self.note = ""
        self.by_sqlite: dict[str, str] = {}
        self._columns: dict[tuple[str, str], NDArray[Any]] = {}
        self._counts: dict[str, int] = {}
        self._leaves: dict[str, Leaves] = {}
        self._strings: dict[int, str] | None = None
        with ExitStack() as opened:
            self.file = self._settled(opened)
            _check_size(self.file, path)
            self._db = self._connected(opened)
            self.tables = self._read_tables()
            self._check_tables()
            with _opening(path):
                self._pages = PageFile(self.file, self._db)
            opened.callback(self._pages.close)
            self._opened = opened.pop_all()
        weakref.finalize(self, self._opened.close)  # captures are dropped without a word, in any thread

    def close(self) -> None:
        """Close the file; arrays handed out stay valid."""
        self._opened.close()

    def count(self, table: str) -> int:
        """Return the number of rows; 0 for a table that is not there (exports are lazy)."""
        if table not in self.tables:
            return 0
        if table not in self._counts:
            leaves = self._find_leaves(table)
            sql = f"SELECT count(*) FROM {quoted(table)}"  # noqa: S608
            self._counts[table] = int(self.rows(sql)[0][0] if leaves is None else leaves.rows.sum())
        return self._counts[table]

    def columns(self, table: str, wanted: Sequence[tuple[str, FieldKind]]) -> list[NDArray[Any]]:
        """Return the columns in row order: int64 (``MISSING`` for SQL NULL), or objects for ``text``."""
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
            found = self.rows(f"SELECT id, CAST(value AS TEXT) FROM {STRINGS}")  # noqa: S608
            self._strings = {i: text for i, text in found if text is not None}
        return self._strings

    def _settled(self, opened: ExitStack) -> Path:
        """Return the file itself, or a copy that holds what a journal beside it says."""
        _check_magic(self.path)
        file = self.path.resolve()
        journals = [file.with_name(file.name + kind) for kind in ("-wal", "-journal")]
        journals = [journal for journal in journals if journal.is_file() and journal.stat().st_size]
        if not journals:
            return file
        self.note = f"read from a private copy, as {journals[0].name} lies beside it"
        folder = tempfile.mkdtemp(prefix="nsyswrap-")
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            [copy, *_] = [Path(shutil.copyfile(part, Path(folder, part.name))) for part in (file, *journals)]
        except OSError as error:
            raise OutputError(
                f"cannot copy {self.path} and {journals[0].name} into {folder}: {error.strerror}",
                "close what writes to it, or point TMPDIR at a folder with room",
            ) from None
        with self._damage_named():
            _take_in_journal(copy)
        return copy

    def _connected(self, opened: ExitStack) -> sqlite3.Connection:
        uri = f"{self.file.as_uri()}?mode=ro&immutable=1"
        with self._damage_named():
            db = sqlite3.connect(uri, uri=True, check_same_thread=False)
        opened.callback(db.close)
        # Kernel names can hold bytes that are no UTF-8; escapes keep different names different.
        db.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
        return db

    def _read_tables(self) -> dict[str, list[str]]:
        names = self.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        return {
            name: [row[1] for row in self.rows(f"PRAGMA table_info({quoted(name)})")]
            for (name,) in names
            if isinstance(name, str)  # not where the file is damaged
        }

    def _check_tables(self) -> None:
        if STRINGS not in self.tables or not any(t.startswith(CAPTURE_MARKS) for t in self.tables):
            raise NotACapture(
                f"{self.path} is an SQLite database, but no Nsight Systems export (it has no {STRINGS} with "
                "CUDA or NVTX tables): give a .sqlite made by `nsys export` or `nsys profile --stats=true`"
            )

    def _load(self, table: str, wanted: Sequence[tuple[str, FieldKind]]) -> None:
        found = self._from_pages(table, [name for name, kind in wanted if kind != "text"])
        rest = [(name, kind) for name, kind in wanted if name not in found]
        for name, array in (found | self._from_rows(table, rest)).items():
            array.flags.writeable = False
            self._columns[table, name] = array

    def _find_leaves(self, table: str) -> Leaves | None:
        if table not in self._leaves and table not in self.by_sqlite:
            with self._by_sqlite(table):
                self._leaves[table] = find_leaves(self._pages, table)
        return self._leaves.get(table)

    def _from_pages(self, table: str, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        leaves = self._find_leaves(table)
        if leaves is not None and names:
            with self._by_sqlite(table):
                return dict(read_columns(self._pages, table, leaves, names))
        return {}

    @contextmanager
    def _by_sqlite(self, table: str) -> Iterator[None]:
        """Leave a table, and the words for what is wrong with it, to SQLite."""
        try:
            yield
        except (sqlite_pages.NotPlain, sqlite3.DatabaseError, OSError) as error:
            self.by_sqlite[table] = str(error)

    def _from_rows(self, table: str, wanted: Sequence[tuple[str, FieldKind]]) -> dict[str, NDArray[Any]]:
        if not wanted:
            return {}
        # An index would hand out the rows in its own order.
        sql = f"SELECT {', '.join(quoted(name) for name, _ in wanted)} FROM {quoted(table)} NOT INDEXED"  # noqa: S608
        parts: list[list[NDArray[Any]]] = [[_empty(kind)] for _, kind in wanted]
        with self._damage_named():
            cursor = self._db.execute(sql)
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                for part, values, (name, kind) in zip(parts, zip(*rows, strict=True), wanted, strict=True):
                    part.append(self._array(values, kind, f"{table}.{name}"))
        return {name: np.concatenate(part) for part, (name, _) in zip(parts, wanted, strict=True)}

    def _array(self, values: tuple[Any, ...], kind: FieldKind, where: str) -> NDArray[Any]:
        if kind == "text":
            array = np.empty(len(values), dtype=object)
            array[:] = values
            return array
        try:
            if None in values:
                values = tuple(MISSING if value is None else value for value in values)
            return np.fromiter(values, np.int64, len(values))
        except (TypeError, ValueError, OverflowError) as error:
            raise DamagedCapture(
                f"{self.path}: {where} holds something that is no integer ({error})"
            ) from None

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, MemoryError) as error:  # a damaged length may ask for any memory
            raise DamagedCapture(
                f"{self.path} cannot be read: {str(error) or 'out of memory'}",
                "export the .nsys-rep again with `nsys export`",
            ) from None


def _empty(kind: FieldKind) -> NDArray[Any]:
    return np.empty(0, dtype=object if kind == "text" else np.int64)


def _take_in_journal(copy: Path) -> None:
    """Finish or undo what was being written, and leave a file that is all there is."""
    db = sqlite3.connect(copy)
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        db.execute("PRAGMA journal_mode = DELETE").fetchone()
    finally:
        db.close()


@contextmanager
def _opening(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotACapture(f"{path}: {error.strerror}") from None


def _check_magic(path: Path) -> None:
    """Tell a directory, a pipe, an empty and a foreign file apart before SQLite sees it."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise NotACapture(
            f"{path} is no file but a pipe or a device",
            "write it into a file first: an export is read at any place",
        )
    with _opening(path), path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header:
        raise NotACapture(f"{path} is empty (0 bytes)", "nsys may have been interrupted; profile again")
    if not header.startswith(_MAGIC):
        raise NotACapture(f"{path} is no SQLite database", "give a .sqlite, a .nsys-rep or a run folder")


def _check_size(file: Path, path: Path) -> None:
    """Tell a file that is cut off; ``path`` is what it is called."""
    with _opening(path), file.open("rb") as content:
        header = content.read(_HEADER_BYTES)
        size = content.seek(0, os.SEEK_END)
    page = int.from_bytes(header[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    if size < expected:
        raise DamagedCapture(
            f"{path} is cut off: {size:,} of {expected:,} bytes",
            "copy it again, or export the .nsys-rep again",
        )
