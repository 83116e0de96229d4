"""Read integer columns from the pages of an SQLite file, in a tenth of the time that SQLite takes.

SQLite returns row after row. Here threads decode blocks of leaf pages with numpy. The file format is
described at https://www.sqlite.org/fileformat2.html. Only plain records are read: unusual records and damage
raise NotPlain, and the caller has to use SQLite instead. Some rows of each table are compared with SQLite's.
"""

from __future__ import annotations

import mmap
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base.constants import MISSING
from nsyswrap.base.sqlite import statement
from nsyswrap.base.threads import in_threads
from nsyswrap.capture.sqlite_records import (
    PAGE_HEADER_BYTES,
    Bytes,
    LeafBlock,
    NotPlain,
    read_integers,
    row_counts,
    rowid,
    varints,
)

Ints = NDArray[np.int64]


T = TypeVar("T")

FEW_LEAVES = 32  # SQLite reads fewer pages than this faster
_BLOCK_BYTES = 1 << 21  # of leaves at a time: smaller ones hand the interpreter lock to and fro more often
_CLOSE = 8  # pages from one leaf to the next, up to which both are read in one piece
_FEW_COLUMNS = 80  # of one block each: up to so many, threads save no more time than they take
_THREADS = 2  # more of them wait for the interpreter lock, and hold more blocks
_KEPT_BYTES = 8 << 20  # more than the arrays of a block take
_CHECKED_ROWS = 32  # at most, and one of _CHECKED_OF rows
_CHECKED_OF = 512
_CHECKED_LEAVES = 32

_INTERIOR = 5  # type of a page with child pages, in a table with rowids
_UTF8 = 1
_LOCK_BYTE = 1 << 30  # lies in a page that no table uses
_MAX_DEPTH = 20
_MOST_PAGES = 1 << 28  # 1 TB of usual pages; each takes a byte of memory
_LONGEST_ROWID = 8  # bytes; only rowids below 0 and beyond 2**56 have more


class Miscounted(NotPlain):
    """The number of rows in the pages differs from what the rowids in the pages above them promise."""


class Leaves(NamedTuple):
    """The leaf pages of a table in row order: page numbers, from 1, and the number of rows of each."""

    numbers: Ints
    rows: Ints


class PageFile:
    """An SQLite file opened for reading pages at ``opened_s``; ``db`` is the same file in SQLite."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        """Open ``path``, which SQLite has read before; raises OSError."""
        self.db = db
        self._file = path.open("rb", buffering=0)
        self._rooms = threading.local()
        self.opened_s = time.time()
        self.header = header = self._file.read(100)
        size = int.from_bytes(header[16:18], "big")
        self.page_bytes = 1 << 16 if size == 1 else size
        self.is_plain = header[20] == 0 and header[59] == _UTF8 and hasattr(os, "preadv")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def status(self) -> os.stat_result:
        """Return size, times of change and number of the file that is open, whatever has its name by now."""
        return os.fstat(self._file.fileno())

    def read(self, first: int, room: memoryview) -> None:
        """Read pages into memory, from page number ``first``; raises NotPlain if the file is too short."""
        if os.preadv(self._file.fileno(), [room], (first - 1) * self.page_bytes) < len(room):
            raise NotPlain("the file ends early")

    def head(self, number: int) -> bytearray:
        """Return the header of a page; raises NotPlain as ``read`` does."""
        content = bytearray(PAGE_HEADER_BYTES)
        self.read(number, memoryview(content))
        return content

    def block(self, numbers: Ints) -> LeafBlock:
        """Return the leaf pages with these numbers; those that lie close to each other are read at once.

        They are valid until the calling thread reads the next ones.
        """
        apart = np.diff(numbers)
        begins = np.flatnonzero(np.append(True, (apart < 1) | (apart > _CLOSE)))
        counts = np.diff(begins, append=len(numbers))
        first = numbers[begins]
        sizes = numbers[begins + counts - 1] - first + 1
        places = np.cumsum(sizes) - sizes
        content = self._room(int(sizes.sum()) * self.page_bytes)
        for number, place, size in zip(first.tolist(), places.tolist(), sizes.tolist(), strict=True):
            self.read(number, content[place * self.page_bytes : (place + size) * self.page_bytes].data)
        starts = (numbers + np.repeat(places - first, counts)) * self.page_bytes
        return LeafBlock(content, starts, self.page_bytes)

    def _room(self, size: int) -> Bytes:
        """Return memory for so many bytes, which the calling thread uses again and again.

        It begins with a page of memory: copying from the file to other places can take three times as long.
        """
        room: Bytes | None = getattr(self._rooms, "room", None)
        if room is None or len(room) < size:
            memory = np.empty(size + mmap.PAGESIZE, np.uint8)
            room = memory[-memory.ctypes.data % mmap.PAGESIZE :]
            self._rooms.room = room
        return room[:size]


def find_leaves(file: PageFile, table: str) -> Leaves:
    """Return the leaf pages of a table; raises NotPlain.

    The pages above them tell how many rows each has if no row was ever deleted. That is taken for true if it
    is so for some leaves: whoever reads rows finds out, and whoever only counts them asks ``count_rows``.
    """
    numbers, last = _leaf_numbers(file, table)
    some = np.linspace(0, len(numbers) - 1, _CHECKED_LEAVES, dtype=np.int64)
    found = row_counts(file.block(numbers[some]))
    rows = np.append(np.diff(last, prepend=0), found[-1])
    possible = rows.min() > 0 and rows.max() <= file.page_bytes
    if possible and np.array_equal(rows[some], found) and _last_rowid(file.db, table) == rows.sum():
        return Leaves(numbers, rows)
    return count_rows(file, table, numbers)


def count_rows(file: PageFile, table: str, numbers: Ints) -> Leaves:
    """Return the leaf pages with the number of rows that each of them names; raises NotPlain."""
    heads = b"".join([file.head(number) for number in numbers.tolist()])
    starts = np.arange(len(numbers)) * PAGE_HEADER_BYTES
    rows = row_counts(LeafBlock(np.frombuffer(heads, np.uint8), starts, file.page_bytes))
    _check_count(file.db, table, int(rows.sum()))
    return Leaves(numbers, rows)


def read_columns(file: PageFile, table: str, leaves: Leaves, names: Sequence[str]) -> dict[str, Ints]:
    """Return integer columns in the order of rowids, MISSING for NULL; raises NotPlain or Miscounted."""
    read = {name: np.empty(leaves.rows.sum(), np.int64) for name in names}
    for _ in _read(file, table, leaves, names, lambda rows: {name: read[name][rows] for name in names}):
        pass
    return read


def stream_columns(
    file: PageFile, table: str, leaves: Leaves, names: Sequence[str], work: Callable[[dict[str, Ints]], T]
) -> Iterator[T]:
    """Yield what ``work`` makes of each block of rows, in their order; raises NotPlain or Miscounted.

    A block has the integer columns by name, MISSING for NULL. They are read in threads, and are not kept.
    """

    def room(rows: slice) -> dict[str, Ints]:
        return dict(zip(names, np.empty((len(names), rows.stop - rows.start), np.int64), strict=True))

    return _read(file, table, leaves, names, room, work)


def _read(  # noqa: PLR0913, PLR0917 - one way for both
    file: PageFile,
    table: str,
    leaves: Leaves,
    names: Sequence[str],
    room: Callable[[slice], dict[str, Ints]],
    work: Callable[[dict[str, Ints]], T] = lambda _: None,  # type: ignore[assignment, return-value]
) -> Iterator[T]:
    """Read blocks of rows into the room for each. At the end, compare some rows with SQLite's."""
    indexes = _column_indexes(file.db, table, names)
    row_ends = np.cumsum(leaves.rows)
    count = int(row_ends[-1])
    checks = min(_CHECKED_ROWS, 1 + count // _CHECKED_OF)
    checked = random.Random(table).sample(range(count), min(checks, count))  # noqa: S311 - a sample, no secret
    decoded: dict[int, list[int]] = {}  # by rowid

    def block(span: slice) -> T:
        rows = slice(int(row_ends[span.start] - leaves.rows[span.start]), int(row_ends[span.stop - 1]))
        columns = room(rows)
        pages = file.block(leaves.numbers[span])
        counts = leaves.rows[span]
        if not np.array_equal(row_counts(pages), counts):
            raise Miscounted("pages with rows missing, or a file that changes meanwhile")
        read_integers(pages, counts, {indexes[name]: values for name, values in columns.items()})
        for row in checked:
            if rows.start <= row < rows.stop:
                leaf = int(np.searchsorted(row_ends, row, "right"))
                start = int(pages.starts[leaf - span.start])
                page = pages.data[start : start + file.page_bytes].tobytes()
                number = rowid(page, row - int(row_ends[leaf] - leaves.rows[leaf]))
                decoded[number] = [int(columns[name][row - rows.start]) for name in names]
        return work(columns)

    size, total = max(1, _BLOCK_BYTES // file.page_bytes), len(leaves.numbers)
    blocks = [slice(first, min(first + size, total)) for first in range(0, total, size)]
    if len(blocks) > 1:
        np.empty(_KEPT_BYTES, np.uint8)  # once it is freed, glibc does not return smaller pieces one by one
    yield from in_threads(block, blocks, _THREADS, _FEW_COLUMNS // max(len(names), 1))
    # Some rows are compared with SQLite's.
    sql = statement("SELECT _rowid_, {columns} FROM {table} WHERE _rowid_ IN ", columns=names, table=table)
    found = file.db.execute(f"{sql}({', '.join(map(str, decoded))})")
    if {row: [MISSING if value is None else value for value in values] for row, *values in found} != decoded:
        raise NotPlain("other values than SQLite finds")


def _column_indexes(db: sqlite3.Connection, table: str, names: Sequence[str]) -> dict[str, int]:
    """Return the index of each column in the records."""
    columns = db.execute(statement("PRAGMA table_xinfo({table})", table=table)).fetchall()
    if any(hidden for *_, hidden in columns):
        raise NotPlain("generated columns")
    indexes = {name: index for index, name, _, _, _, key, _ in columns if not key}
    if not indexes.keys() >= set(names) or any(name.lower() == "_rowid_" for _, name, *_ in columns):
        raise NotPlain("a primary key, which may be the rowid, or a column of an unusual name")
    return {name: indexes[name] for name in names}


def _leaf_numbers(file: PageFile, table: str) -> tuple[Ints, Ints]:
    """Return the numbers of the table's leaf pages in row order, and the last rowid of each but the last."""
    [count] = file.db.execute("PRAGMA page_count").fetchone()
    if count < FEW_LEAVES:
        raise NotPlain("few rows")
    if count > _MOST_PAGES:
        raise NotPlain("more pages than a capture has")
    sql = "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?"
    roots = [root for (root,) in file.db.execute(sql, (table,))]
    if not file.is_plain or len(roots) != 1 or not isinstance(roots[0], int) or roots[0] < 0:
        raise NotPlain("no table, or in an unusual file")
    lock_page = _LOCK_BYTE // file.page_bytes + 1
    unseen = np.ones(count + 1, bool)
    unseen[0] = unseen[lock_page : lock_page + 1] = False  # no page has number 0; virtual tables have root 0
    level, last = np.array(roots, np.int64), np.zeros(1, np.int64)
    for _ in range(_MAX_DEPTH):
        left = np.count_nonzero(unseen) - len(level)
        unseen[level[level < len(unseen)]] = False
        if np.count_nonzero(unseen) != left:
            raise NotPlain("no tree of pages, or a damaged one")
        if file.head(int(level[0]))[0] != _INTERIOR:
            break
        pieces = range(0, len(level), max(1, _BLOCK_BYTES // file.page_bytes))
        below = [_children(file, *(part[at : at + pieces.step] for part in (level, last))) for at in pieces]
        level, last = (np.concatenate(parts) for parts in zip(*below, strict=True))
    if len(level) < FEW_LEAVES:
        raise NotPlain("few rows")
    return level, last[:-1]


def _children(file: PageFile, pages: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return the child pages of interior pages, and the last rowid below each.

    One child is in each cell, and one after the last: ``last`` is the last rowid below it.
    """
    data, starts, size = file.block(pages)
    counts = data[starts + 3].astype(np.int64) << 8 | data[starts + 4]
    if (data[starts] != _INTERIOR).any() or counts.min() == 0 or counts.max() > (size - 12) // 6:
        raise NotPlain("a damaged tree of pages")
    ends = np.cumsum(counts)
    pointers = np.repeat(starts + 12 - 2 * (ends - counts), counts) + 2 * np.arange(ends[-1])
    cells = data[pointers].astype(np.int64) << 8 | data[pointers + 1]
    if cells.max() > size - 4:
        raise NotPlain("a damaged tree of pages")
    cells += np.repeat(starts, counts)
    numbers = np.ndarray(len(data) - 3, ">u4", data, strides=(1,))
    try:
        rowids, _ = varints(data, cells + 4, _LONGEST_ROWID)
    except NotPlain:  # not from 1 on
        rowids = np.zeros(len(cells), np.int64)
    children = np.insert(numbers[cells], ends, numbers[starts + 8])
    return children.astype(np.int64), np.insert(rowids.astype(np.int64), ends, last)


def _last_rowid(db: sqlite3.Connection, table: str) -> object:
    [last] = db.execute(statement("SELECT max(_rowid_) FROM {table}", table=table)).fetchone()
    return last


def _check_count(db: sqlite3.Connection, table: str, count: int) -> None:
    """Compare the number of rows with SQLite's: with the last rowid, or with a count if rows were deleted."""
    if _last_rowid(db, table) == count:
        return
    if db.execute(statement("SELECT count(*) FROM {table}", table=table)).fetchone() != (count,):
        raise NotPlain("another number of rows than SQLite finds")
