"""Read the columns of an SQLite export into numpy arrays.

The file is opened read-only and immutable: SQLite takes no lock and writes nothing into the file or beside
it. A file that was not closed properly is read from a private copy. Each column is read once per ``Export``
and shared; the arrays are read-only. Integers of large tables are read from the file's pages, everything else
through SQLite.

``_paged`` reads the pages of a table in this order:

1. ``leaves`` lists the leaf pages. How many rows each has is taken from the pages above them.
2. The leaves are read. One with another number of rows, as after a DELETE, raises ``Miscounted``.
3. Then ``_count_leaves`` asks each leaf for its number, and the leaves are read once more.
4. After ``NotPlain``, whose reason ``by_sqlite`` keeps, or a second ``Miscounted``, SQLite reads the table.

``columns`` returns nothing before all leaves were read, and ``count`` asks each leaf: no number is a guess.
When the page reader came in, it was fourteen times as fast as SQLite's rows. Columns of either way go
through ``_checked``, those that are only streamed through ``_check_streamed``.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base import paths
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import DamagedCapture, NotACapture, NotInCapture, OutputError
from nsyswrap.base.files import temporary_folder
from nsyswrap.base.sqlite import (
    EXHAUSTED,
    check_magic,
    check_size,
    journals_of,
    opening,
    quoted,
    read_only,
    settled_copy,
    statement,
    tables_of,
)
from nsyswrap.capture.schema import CAPTURE_MARKS, NSYS_TABLE, STRINGS, FieldKind, Wanted
from nsyswrap.capture.sqlite_pages import (
    Leaves,
    Miscounted,
    PageFile,
    count_rows,
    find_leaves,
    read_columns,
    stream_columns,
)
from nsyswrap.capture.sqlite_records import NotPlain
from nsyswrap.capture.stored_times import StoredTimes
from nsyswrap.capture.stream import Columns, Extremes, in_blocks, joined, noting

T = TypeVar("T")
_CHUNK_ROWS = 1000  # larger chunks do not fit the CPU cache and take twice as long
EXACT = 2**53  # below it floats hold each integer: 104 days in ns, 9 PB
_FEW_TEXTS = 10_000  # with more, all texts are read
_SUM = 2**60  # largest sum of a column, which leaves room for those of several tables
_STEPS = 10_000  # of SQLite between two looks at the clock
_OF_PAYLOADS = ("eventType", "start", "globalTid", "binaryData")
_EXPORT_AGAIN = "export the .nsys-rep again with `nsys export`"


class Export:
    """An open SQLite export; ``tables`` maps each table to its columns.

    ``file`` is the file that is read: ``path`` or a private copy, for which ``note`` has the reason.
    ``unusual`` has the views and other tables whose rows are not read, each with the reason.
    ``by_sqlite`` has the reason for each table whose integers were read through SQLite, not from ``pages``.
    """

    def __init__(self, path: Path) -> None:
        """Open ``path``; raises NotACapture or DamagedCapture if it is not a readable export."""
        self.path = path
        self.note = ""
        self.by_sqlite: dict[str, str] = {}
        self._columns: dict[tuple[str, str], NDArray[Any]] = {}
        self._counts: dict[str, int] = {}
        self._filled: dict[str, bool] = {}  # tables whose first row was looked for
        self._leaves: dict[str, Leaves] = {}
        self._strings: dict[int, str] | None = None
        # The first and the last time that were read, and the column of each.
        self._times: tuple[tuple[int, str], tuple[int, str]] | None = None
        self.tables: dict[str, list[str]] = {}
        self.unusual: dict[str, str] = {}
        self._opened = ExitStack()
        weakref.finalize(self, self._opened.close)  # captures are never closed explicitly
        with ExitStack() as opened:
            opened.callback(self._opened.close)
            self._open(self._opened)
            opened.pop_all()

    def _open(self, opened: ExitStack) -> None:
        self.file = self._settled(opened)
        check_size(self.file, self.path)
        with self._damage_named():
            db = read_only(self.file)
        opened.callback(db.close)
        # Kernel names can contain bytes that are not UTF-8; escapes keep different names different.
        db.text_factory = partial(str, encoding="utf-8", errors="backslashreplace")
        self._db = db
        with self._damage_named():
            plain, self.unusual = tables_of(self._db)
        if unusual := next(filter(NSYS_TABLE.fullmatch, self.unusual), ""):
            raise NotACapture(
                f"{self.path}: {unusual} {self.unusual[unusual]}; nsys writes plain tables", _EXPORT_AGAIN
            )
        self.tables = plain
        self._check_tables()
        with opening(self.path):
            self.pages = PageFile(self.file, self._db)
        opened.callback(self.pages.close)

    def close(self) -> None:
        """Close the file; arrays that were returned stay valid."""
        self._opened.close()

    def count(self, table: str) -> int:
        """Return the number of rows of a table; 0 if the export lacks it, as nsys leaves out empty tables."""
        if table not in self.tables:
            return 0
        if table not in self._counts:
            leaves = self._count_leaves(table)
            sql = statement("SELECT count(*) FROM {table}", table=table)
            self._counts[table] = int(self.rows(sql)[0][0] if leaves is None else leaves.rows.sum())
        return self._counts[table]

    def columns(self, table: str, wanted: Wanted) -> list[NDArray[Any]]:
        """Return columns in row order: int64 arrays (``MISSING`` for NULL), object arrays for ``text``.

        Raises DamagedCapture for a value that is no integer, and for a time or an amount that the sums and
        differences of the reports could not hold exactly.
        """
        try:
            return [self._columns[table, name] for name, _ in wanted]
        except KeyError:
            self._load(table, [item for item in wanted if (table, item[0]) not in self._columns])
        return [self._columns[table, name] for name, _ in wanted]

    def release(self, table: str, names: Sequence[str]) -> None:
        """Free columns, which are read again if they are asked for again."""
        for name in names:
            self._columns.pop((table, name), None)

    def stream(self, table: str, wanted: Wanted, work: Callable[[Columns], Columns]) -> Columns:
        """Return the arrays that ``work`` makes of blocks of rows; it gets columns as ``columns`` has them.

        What is read is not kept, so that a table takes no more memory than what is made of it. ``work`` can
        be called by several threads, and again for the same rows. Raises DamagedCapture as ``columns`` does.
        """
        return self.stream_noted(table, wanted, work)[0]

    def stream_noted(
        self, table: str, wanted: Wanted, work: Callable[[Columns], Columns]
    ) -> tuple[Columns, Extremes | None]:
        """Return what ``stream`` does, and what was noted of the blocks if they were read for it."""
        names = [name for name, _ in wanted]
        if not all((table, name) in self._columns for name in names):
            extremes = Extremes()

            def read(leaves: Leaves) -> Columns:
                parts = stream_columns(self.pages, table, leaves, names, noting(work))
                return joined(extremes.noted(parts), int(leaves.rows.sum()))

            made = self._paged(table, read)
            if made is not None:
                self._check_streamed(table, wanted, extremes)
                self.stored(table).keep_streamed(wanted, extremes)
                return made, extremes
        return in_blocks(dict(zip(names, self.columns(table, wanted), strict=True)), work), None

    def leaves(self, table: str) -> Leaves | None:
        """Return the leaf pages of a table; None if SQLite has to read the table."""
        if table not in self._leaves and table not in self.by_sqlite:
            found = self._attempted(table, lambda: find_leaves(self.pages, table))
            self._leaves |= {table: found} if found else {}
        return self._leaves.get(table)

    def from_leaves(self, table: str, wanted: Wanted, leaves: Leaves) -> Columns | None:
        """Return columns of numbers from some leaf pages; None if all of the table has to be read."""
        names = [name for name, _ in wanted]
        columns = self._attempted(table, lambda: read_columns(self.pages, table, leaves, names))
        return columns and self._checked(table, wanted, dict(columns))

    def stored(self, table: str) -> StoredTimes:
        """Return where the times of a table are stored; nowhere for a folder, which has no pages."""
        return StoredTimes(getattr(self, "pages", None), table, self._leaves.get(table))

    def rows_if_large(self, table: str) -> int:
        """Return how many rows a table has that is read from many pages, as far as is known; else 0."""
        leaves = self.leaves(table)
        return int(leaves.rows.sum()) if leaves and self.stored(table).is_large else 0

    def has_read(self, table: str, name: str) -> bool:
        """Return True if a column was read completely."""
        return (table, name) in self._columns

    def has_rows(self, table: str) -> bool:
        """Return True if a table has a row; this reads less than ``count``."""
        if table not in self.tables or table in self._counts:
            return bool(self.count(table))
        if table not in self._filled:
            sql = statement("SELECT EXISTS (SELECT 1 FROM {table})", table=table)
            self._filled[table] = bool(self.rows(sql)[0][0])
        return self._filled[table]

    def rows(self, sql: str, *parameters: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query on a small table."""
        with self._damage_named():
            return self._db.execute(sql, parameters).fetchall()

    def select(
        self, table: str, *wanted: tuple[str, FieldKind], required: bool = True
    ) -> list[tuple[Any, ...]]:
        """Return columns of a small table row by row, None for NULL; no rows if the table is missing.

        A missing column raises NotInCapture, or leaves no rows either if it is not ``required``. Raises
        DamagedCapture as ``columns`` does.
        """
        lacking = [name for name, _ in wanted if name not in self.tables.get(table, ())]
        if required and lacking and table in self.tables:
            raise lacks_column(self.path, table, lacking[0])
        if lacking:
            return []
        columns = self._checked(table, wanted, self._from_rows(table, wanted))
        return list(zip(*(_cells(columns[name]) for name, _ in wanted), strict=True))

    def payloads(self, most: int) -> list[tuple[Any, ...]]:
        """Return event type, start, thread and binary payload of the first NVTX events that have one."""
        return [] if self.lacking_for_payloads() else self._payloads(_OF_PAYLOADS, most)

    def lacking_for_payloads(self) -> list[str]:
        """Return the columns that payloads need and the export does not have."""
        return [name for name in _OF_PAYLOADS if name not in self.tables.get("NVTX_EVENTS", ())]

    def _payloads(self, columns: Sequence[str], most: int) -> list[tuple[Any, ...]]:
        what = f"{', '.join(columns)} FROM NVTX_EVENTS WHERE typeof(binaryData) = 'blob'"
        return self.rows(f"SELECT {what} ORDER BY start LIMIT {most}")

    @property
    def strings(self) -> dict[int, str]:
        """Texts of StringIds by id, read once."""
        if self._strings is None:
            rows = self.select(STRINGS, ("id", "int"), ("value", "text"))
            self._strings = {i: text for i, text in rows if text is not None}
        return self._strings

    def texts(self, ids: Iterable[int], *, alone: bool = False) -> dict[int, str]:
        """Return texts of StringIds by id: of these ids, and of others unless they are read ``alone``."""
        few = {*ids} if alone and self._strings is None else ()
        if not few or len(few) > _FEW_TEXTS or not {"id", "value"} <= {*self.tables.get(STRINGS, ())}:
            return self.strings
        sql = f"SELECT id, CAST(value AS TEXT) FROM {STRINGS} WHERE id IN ({', '.join(map(str, few))})"  # noqa: S608 - numbers
        return {i: text for i, text in self.rows(sql) if text is not None}

    def damage(self, patience_s: float) -> str | None:
        """Return the first finding of SQLite's quick check, empty if it has none; None if it takes longer."""
        deadline = monotonic() + patience_s
        self._db.set_progress_handler(lambda: monotonic() > deadline, _STEPS)
        try:
            [(first, *_), *_] = self._db.cursor().execute("PRAGMA quick_check(1)").fetchall()
        except sqlite3.DatabaseError as error:
            if str(error) != EXHAUSTED:
                return str(error)
            if monotonic() <= deadline:  # sqlite3 dropped what a signal raised above
                raise KeyboardInterrupt from None
            return None
        return "" if first == "ok" else str(first)

    def too_large(self) -> DamagedCapture:
        """Return the error for a sum of times that 64 bits cannot hold."""
        (first, where_first), (last, where_last) = self._times or ((0, ""), (0, ""))
        return self._damaged(
            f"a report needs numbers beyond 64 bits: times from {first:,} ns ({where_first}) to {last:,} ns "
            f"({where_last})"
        )

    def _damaged(self, fault: str) -> DamagedCapture:
        return DamagedCapture(f"{self.path}: {fault}", _EXPORT_AGAIN)

    def _settled(self, opened: ExitStack) -> Path:
        """Return the file itself, or a copy that includes the changes in a journal beside it."""
        check_magic(self.path)
        file = paths.real(self.path)
        journals = journals_of(file)
        if not journals:
            return file
        self.note = f"read from a private copy, because of {journals[0].name} beside it"
        folder = opened.enter_context(temporary_folder())
        try:
            with self._damage_named():
                return settled_copy(file, journals, folder)
        except OSError as error:
            raise OutputError(
                f"cannot copy {self.path} and {journals[0].name} into {folder}: {error.strerror}",
                "close the program that writes the file, or set TMPDIR to a folder with free space",
            ) from None

    def _check_tables(self) -> None:
        if STRINGS not in self.tables or not any(t.startswith(CAPTURE_MARKS) for t in self.tables):
            raise NotACapture(
                f"{self.path} is not a capture: no table {STRINGS} with CUDA or NVTX tables",
                "give a .sqlite made by `nsys export` or `nsys profile --stats=true`",
            )

    def _load(self, table: str, wanted: Wanted) -> None:
        columns = self._from_pages(table, [name for name, kind in wanted if kind != "text"])
        rest = [(name, kind) for name, kind in wanted if name not in columns]
        columns |= self._from_rows(table, rest)
        for name, array in self._checked(table, wanted, columns).items():
            array.flags.writeable = False
            self._columns[table, name] = array
        self._check_durations(table)
        self.stored(table).keep_read(wanted, columns)

    def _checked(self, table: str, wanted: Wanted, columns: Columns) -> Columns:
        for name, kind in wanted:
            if kind not in ("int", "text", "string") and len(columns[name]):
                self._check(f"{table}.{name}", kind, columns[name])
        return columns

    def _check(self, where: str, kind: FieldKind, values: NDArray[Any]) -> None:
        """Raise DamagedCapture for times and amounts with which int64 and floats cannot compute exactly."""
        low, high = int(values.min()), int(values.max())
        if low == MISSING:
            missing = values == MISSING
            if kind in ("time", "amount"):
                raise self._damaged(f"{where} is empty in row {int(missing.argmax()) + 1}")
            if missing.all():
                return
            low = int(values[~missing].min())
        if kind in ("time", "end"):
            self._check_times((low, where), (high, where))
        elif max(-low, high) > EXACT or (
            max(-low, high) * len(values) > _SUM
            and np.abs(np.where(values == MISSING, 0, values)).sum(dtype=float) > _SUM
        ):
            raise self._damaged(f"{where} has {max(low, high, key=abs):,}, with which no sum is exact")

    def _check_times(self, low: tuple[int, str], high: tuple[int, str]) -> None:
        if self._times:
            low, high = min(low, self._times[0]), max(high, self._times[1])
        for time, where in (low, high):
            if abs(time) >= 2 * _SUM:
                raise self._damaged(f"{where} has {time:,} ns: no recording has such a time")
        if high[0] - low[0] >= EXACT:
            raise self._damaged(
                f"{high[1]} has {high[0]:,} ns, {low[1]} has {low[0]:,} ns: times more than 104 days apart "
                "cannot be exact"
            )
        self._times = low, high

    def _check_durations(self, table: str) -> None:
        """Raise DamagedCapture if the durations of a table could exceed 64 bits in sum."""
        start, end = (self._columns.get((table, name)) for name in ("start", "end"))
        if start is None or end is None or not self._times:
            return
        (low, _), (high, _) = self._times
        if len(start) * (high - low) > _SUM:
            ended = end != MISSING
            if np.abs(end[ended] - start[ended]).sum(dtype=float) > _SUM:
                raise self.too_large()

    def _check_streamed(self, table: str, wanted: Wanted, extremes: Extremes) -> None:
        """Raise DamagedCapture as for columns; where the extremes cannot tell, all values are read."""
        rows = self.count(table)
        for name, kind in wanted:
            low, high = extremes.of(name)
            if kind in ("time", "end") and low != MISSING:
                self._check_times((low, f"{table}.{name}"), (high, f"{table}.{name}"))
            elif kind not in ("int", "string") and (low == MISSING or max(-low, high) * rows > EXACT):
                self.columns(table, wanted)
                return
        times = extremes.times()
        if times and (times.rows * (times.last - times.first).astype(float)).sum() > _SUM:
            self.columns(table, wanted)

    def _from_pages(self, table: str, names: Sequence[str]) -> Columns:
        if not names:
            return {}
        return self._paged(table, lambda leaves: read_columns(self.pages, table, leaves, names)) or {}

    def _paged(self, table: str, read: Callable[[Leaves], T]) -> T | None:
        """Return what ``read`` makes of all leaf pages; None if SQLite has to read the table."""
        before = None
        for _ in range(2):  # again if the rows had to be counted
            leaves = self.leaves(table)
            if leaves is None or leaves is before:
                break
            before = leaves
            made = self._attempted(table, partial(read, leaves))
            if made is not None:
                self._counts[table] = int(leaves.rows.sum())
                return made
        return None

    def _count_leaves(self, table: str) -> Leaves | None:
        """Return the leaf pages with their rows counted; None if SQLite has to count them."""
        leaves = self.leaves(table)
        if leaves is None:
            return None
        counted = self._attempted(table, lambda: count_rows(self.pages, table, leaves.numbers))
        self._leaves |= {table: counted} if counted else {}
        return counted

    def _attempted(self, table: str, read: Callable[[], T]) -> T | None:
        """Return what ``read`` returns. After an error SQLite has to read the table, or rows are counted."""
        # In Python 3.12 a context manager that ends an error keeps the arrays of its callers in memory.
        try:
            return read()
        except Miscounted:
            self._count_leaves(table)
        except (NotPlain, sqlite3.DatabaseError, OSError, UnicodeDecodeError) as error:
            self.by_sqlite[table] = str(error)
        return None

    def _from_rows(self, table: str, wanted: Wanted) -> Columns:
        if not wanted:
            return {}
        # An index would return the rows in its own order.
        cells = [f"CAST({quoted(name)} AS TEXT)" if kind == "text" else quoted(name) for name, kind in wanted]
        sql = f"SELECT {', '.join(cells)} FROM {quoted(table)} NOT INDEXED"  # noqa: S608 - quoted
        parts: list[list[NDArray[Any]]] = [[] for _ in wanted]
        with self._damage_named():
            cursor = self._db.execute(sql)
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                for part, values, (name, kind) in zip(parts, zip(*rows, strict=True), wanted, strict=True):
                    part.append(self._array(values, kind, f"{table}.{name}"))
        columns = {
            name: part[0] if len(part) == 1 else np.concatenate(part or [self._array((), kind, "")])
            for part, (name, kind) in zip(parts, wanted, strict=True)
        }
        self._counts.setdefault(table, len(columns[wanted[0][0]]))
        return columns

    def _array(self, values: tuple[Any, ...], kind: FieldKind, where: str) -> NDArray[Any]:
        if kind == "text":
            return np.array(values, dtype=object)
        if not (types := set(map(type, values))) <= {int, type(None)}:
            values = tuple(self._integer(value, where) for value in values)
        missing = 0 if types == {int} else values.count(None)
        known = (MISSING if value is None else value for value in values) if missing else values
        array = np.fromiter(known, np.int64, len(values))
        if np.count_nonzero(array == MISSING) != missing:
            raise self._damaged(f"{where} has {MISSING}, which stands for no number")
        return array

    def _integer(self, value: object, where: str) -> object:
        if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
            return int(value)
        if value is None or isinstance(value, int):
            return value
        text = f"TEXT {value[:40]!r}" if isinstance(value, str) else "BLOB"
        shown = f"REAL {value}" if isinstance(value, float) else text
        raise self._damaged(f"{where} contains a value that is not an integer ({shown})")

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError:  # SQLite names a table or column in its own message
            raise DamagedCapture(
                f"{self.path} cannot be read: its list of tables is damaged", _EXPORT_AGAIN
            ) from None
        except (sqlite3.DatabaseError, MemoryError) as error:  # a damaged length can ask for any memory
            first_line, *_ = str(error).strip().splitlines() or ["out of memory"]  # SQLite quotes a schema
            if first_line == EXHAUSTED:
                first_line = "SQLite takes more steps than the size of the file explains"
            raise DamagedCapture(f"{self.path} cannot be read: {first_line}", _EXPORT_AGAIN) from None


def lacks_column(path: Path, table: str, column: str) -> NotInCapture:
    """Return the error for a table without a column that every nsys writes."""
    return NotInCapture(
        f"{table} has no column {column}; the file was trimmed or is not a complete export",
        _EXPORT_AGAIN,
        source=path,
    )


def _cells(values: NDArray[Any]) -> list[Any]:
    cells: list[Any] = values.tolist()
    return cells if values.dtype == object else [None if cell == MISSING else cell for cell in cells]
