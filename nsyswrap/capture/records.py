"""Integers out of the records in leaf pages of an SQLite file, with numpy, thousands of rows at a time.

The format: https://www.sqlite.org/fileformat2.html. Whatever is unusual, and every damage, raises NotPlain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bytes = NDArray[np.uint8]


LEAF = 13  # the kind of a leaf page of a table that has rowids
_SHORT = 127  # the largest number that takes one byte
_LONG = 4  # bytes of the largest number expected: of 256 MiB

# By serial type, which says what a value is: its bytes, how far to shift out what stands before them, and
# what those without bytes mean. 10 and 11 are not for files: no record is long enough for them.
_FLOAT, _LAST_NUMBER = 7, 9
_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 1 << 40, 1 << 40, *((t - 12) // 2 for t in range(12, 128))])
_SHIFTS = (64 - 8 * _SIZES[: _LAST_NUMBER + 1]) % 64
_CONSTANTS = {0: MISSING, 8: 0, 9: 1}


class NotPlain(Exception):
    """Why SQLite itself has to read a table."""


class Block(NamedTuple):
    """Leaf pages in memory: the bytes they lie in, where in them each begins, and the bytes of a page."""

    data: Bytes
    starts: Ints
    page_bytes: int


def row_counts(block: Block) -> Ints:
    """Return how many rows each page holds; raises NotPlain."""
    rows = block.data[block.starts + 3].astype(np.int64) << 8 | block.data[block.starts + 4]
    most = (block.page_bytes - 8) // 6
    if (block.data[block.starts] != LEAF).any() or rows.min() == 0 or rows.max() > most:
        raise NotPlain("a damaged leaf page")
    return rows


def read_integers(block: Block, columns: Mapping[int, Ints]) -> None:
    """Fill each array with the column that stands at this place in the records; raises NotPlain."""
    rows = row_counts(block)
    if any(len(column) != rows.sum() for column in columns.values()):
        raise NotPlain("a file that changes meanwhile")
    records, payload, local = _records(block, rows)
    header, kind_at = _varints(block.data, records)
    header_end = records + header
    value_end, limit = header_end.copy(), records + local
    for place in range(max(columns) + 1):
        kinds, kind_at = _varints(block.data, kind_at)
        value_end += _sizes(kinds)
        if place in columns:
            if (kind_at > header_end).any() or (value_end > limit).any():
                raise NotPlain("short, long or damaged records")
            _integers(block.data, value_end, kinds, columns[place])
    if ((kind_at == header_end) & (value_end != records + payload)).any():
        raise NotPlain("damaged records")


def rowid(page: bytes, row: int) -> int:
    """Return the rowid of a row of one leaf page, counted from 0."""
    at = int.from_bytes(page[8 + 2 * row : 10 + 2 * row], "big")
    while page[at] > _SHORT:  # the length of the record
        at += 1
    value = 0
    for byte in page[at + 1 : at + 9]:
        value = value << 7 | byte & _SHORT
        if byte <= _SHORT:
            return value
    value = value << 8 | page[at + 9]
    return value - (1 << 64) if value >> 63 else value


def _records(block: Block, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Return where each row's record begins, its bytes, and how many of them lie in its page."""
    first = block.starts + 8 - 2 * (np.cumsum(rows) - rows)
    pointers = np.repeat(first, rows) + np.arange(0, 2 * rows.sum(), 2)
    cells = block.data.view(">u2")[pointers // 2].astype(np.int64)
    if cells.min() < 8:  # noqa: PLR2004 - the bytes of a page's header
        raise NotPlain("a damaged leaf page")
    pages = np.repeat(block.starts, rows)
    payload, rowids = _varints(block.data, pages + cells)
    records = _behind_varints(block.data, rowids)
    local = _local(payload, block.page_bytes)
    if (records + local > pages + block.page_bytes).any():
        raise NotPlain("a damaged leaf page")
    return records, payload, local


def _local(payload: Ints, page_bytes: int) -> Ints:
    """Return how many bytes of a record lie in its leaf; the rest overflows into other pages."""
    most = page_bytes - 35
    if payload.max() <= most:
        return payload
    least = (page_bytes - 12) * 32 // 255 - 23
    part = least + (payload - least) % (page_bytes - 4)
    return np.where(payload <= most, payload, np.where(part <= most, part, least))


def _varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Return numbers of seven bits a byte, and where what follows them begins."""
    numbers = data.take(at, mode="clip")
    at = at + 1
    if numbers.max() <= _SHORT:
        return numbers, at  # type: ignore[return-value]  # as they are: bytes
    more = numbers > _SHORT
    values = numbers.astype(np.int64) & _SHORT
    for _ in range(_LONG - 1):
        byte = data.take(at, mode="clip")
        values = np.where(more, values << 7 | byte & _SHORT, values)
        at += more
        more &= byte > _SHORT
        if not more.any():
            return values, at
    raise NotPlain("records of 256 MiB or more")


def _behind_varints(data: Bytes, at: Ints) -> Ints:
    """Return where what follows numbers begins; the ninth byte of one is its last, whatever it holds."""
    more = np.ones(len(at), bool)
    for _ in range(8):
        more &= data.take(at, mode="clip") > _SHORT
        if not more.any():
            break
        at = at + more
    return at + 1


def _sizes(kinds: Ints) -> Ints:
    """Return the bytes of values; a single number where all are of one kind."""
    if kinds.max() > _SHORT:
        return np.where(kinds > _SHORT, (kinds - 12) // 2, _SIZES.take(kinds, mode="clip"))
    if kinds.min() == kinds.max():
        return _SIZES[kinds[:1]]
    return _SIZES.take(kinds)


def _integers(data: Bytes, ends: Ints, kinds: Ints, out: Ints) -> None:
    """Read the integers that end there: the last bytes of eight, for which a page's header leaves room."""
    if kinds.max() > _LAST_NUMBER or (kinds == _FLOAT).any():
        raise NotPlain("something that is no integer")
    eights = np.ndarray(len(data) - 7, ">i8", data, strides=(1,))
    shifts = _SHIFTS[kinds[:1]] if kinds.min() == kinds.max() else _SHIFTS.take(kinds)
    out[:] = eights[ends - 8]
    out <<= shifts
    out >>= shifts
    for kind, value in _CONSTANTS.items():
        np.putmask(out, kinds == kind, value)
