"""Decode the integers in the records of an SQLite table with numpy, a block of leaf pages at a time.

The file format is described at https://www.sqlite.org/fileformat2.html. Only plain records are read: unusual
records and damage raise NotPlain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base.constants import MISSING

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Rows = NDArray[np.intp] | slice

LEAF = 13  # type of a leaf page of a table with rowids
PAGE_HEADER_BYTES = 8  # of a leaf page
_SHORT = 127  # the largest varint of one byte
_LONG = 4  # bytes of the longest varint that is read, for lengths below 256 MiB

# By serial type of a value: its size in bytes, the shift that removes the bytes before it, and the values of
# types without bytes. Types 10 and 11 do not occur in files: their size exceeds every record.
_EIGHT_BYTES, _FLOAT, _LAST_NUMBER = 6, 7, 9
_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 1 << 40, 1 << 40, *((t - 12) // 2 for t in range(12, 128))])
_SHIFTS = (64 - 8 * _SIZES[: _LAST_NUMBER + 1]) % 64
_CONSTANTS = {0: MISSING, 8: 0, 9: 1}
_WITHOUT_BYTES = np.array([_CONSTANTS.get(kind, 0) for kind in range(_LAST_NUMBER + 1)])
_RESERVED, _TEXTS = 10, 12
_SIZE_BYTES = bytes(int(size) & 255 for size in _SIZES).ljust(256, b"\0")

_WORD = 8  # bytes that are compared at once
_CONTINUED = np.uint64(0x8080808080808080)  # the bit of each of them that says that a varint goes on
_LOW = np.uint64(_SHORT)
_FORMS = 16  # of record sizes and rowids by their lengths: with more, reading each row's own is faster


class NotPlain(Exception):
    """The reason why SQLite itself has to read a table."""


class LeafBlock(NamedTuple):
    """Leaf pages in memory: their bytes, the start of each page in them, and the size of a page in bytes."""

    data: Bytes
    starts: Ints
    page_bytes: int


class CellStarts(NamedTuple):
    """Where the cell of each row begins: in the data, and in its page."""

    at: Ints
    offset: Ints


class Records(NamedTuple):
    """The start of each row's record, its size in bytes, and how many of them are in its page."""

    start: Ints
    payload: Ints
    local: Ints


def row_counts(block: LeafBlock) -> Ints:
    """Return the number of rows of each page; raises NotPlain."""
    rows = block.data[block.starts + 3].astype(np.int64) << 8 | block.data[block.starts + 4]
    most = (block.page_bytes - PAGE_HEADER_BYTES) // 6
    if (block.data[block.starts] != LEAF).any() or rows.min() == 0 or rows.max() > most:
        raise NotPlain("a damaged leaf page")
    return rows


def read_integers(block: LeafBlock, rows: Ints, columns: Mapping[int, Ints]) -> None:
    """Fill each array with the column at that place of the records; raises NotPlain.

    ``rows`` is the number of rows of each page.
    """
    cells = _cells(block, rows)
    if _read_alike(block, cells, columns):
        return
    start, payload = _behind_sizes(block.data, cells.at)
    local = _local(payload, block.page_bytes)
    if (start + local > cells.at - cells.offset + block.page_bytes).any():
        raise NotPlain("a damaged leaf page")
    records = Records(start, payload, local)
    if not _read_by_types(block.data, records, columns):
        _read_by_record(block.data, records, columns)


def _read_alike(block: LeafBlock, cells: CellStarts, columns: Mapping[int, Ints]) -> bool:
    """Fill the arrays if all cells begin alike, so that each column has one place in them; else return False.

    That is so for the times, which come first: the size of the record, the rowid and the types up to theirs
    are the first eight bytes of a cell, and one comparison tells.
    """
    count = max(columns) + 1
    first = block.data[cells.at[0] : cells.at[0] + _WORD].tobytes()
    behind = 1 + _varint_bytes(int.from_bytes(first[1:], "little"))
    header, *kinds = first[behind : behind + 1 + count] or b"\0"
    if len(kinds) < count or header <= count or max(first[0], header, *kinds) > _SHORT:
        return False
    ends = behind + header + np.cumsum(_SIZES[kinds])
    copies = _pieces(block.data, cells.at - _WORD, _WORD + max(_WORD, int(ends[-1])))
    if not len(copies):
        return False
    mask = (b"\x80" * behind + b"\xff" * (1 + count)).ljust(_WORD, b"\0")
    alike, as_first = (np.uint64(int.from_bytes(word, "little")) for word in (mask, first))
    payload = np.ndarray(len(copies), np.uint8, copies, _WORD, (copies.itemsize,))
    if ((_eights(copies, _WORD, "<u8") & alike) != as_first & alike).any():
        return False
    if payload.min() < ends[-1] - behind or (cells.offset + payload).max() > block.page_bytes - behind:
        return False
    for column, out in columns.items():
        _same_kind(copies, int(ends[column]), kinds[column], out)
    return True


def _same_kind(copies: NDArray[np.void], end: int, kind: int, out: Ints) -> None:
    """Read the integers of one type that end at this place of the records.

    The copies begin eight bytes before the records.
    """
    if kind in _CONSTANTS:
        out[:] = _CONSTANTS[kind]
        return
    if kind > _LAST_NUMBER or kind == _FLOAT:
        raise NotPlain("a value that is not an integer")
    values = _eights(copies, end, ">i8").astype(np.int64)
    values <<= _SHIFTS[kind]
    values >>= _SHIFTS[kind]
    if kind >= _EIGHT_BYTES and values.min() == MISSING:
        raise NotPlain("the number that stands for a missing value")
    out[:] = values


def _pieces(data: Bytes, at: Ints, size: int) -> NDArray[np.void]:
    """Return so many bytes from each position on; none if some would lie behind the data."""
    if at.max() + size > len(data):
        return np.empty(0, np.void)
    return np.ndarray(len(data) - size + 1, f"V{size}", data, strides=(1,))[at]


def _eights(pieces: NDArray[np.void], at: int, order: str) -> NDArray[Any]:
    """Return the eight bytes at one place of all pieces as integers, without a copy."""
    return np.ndarray(len(pieces), order, pieces, at, (pieces.itemsize,))


def _read_by_types(data: Bytes, records: Records, columns: Mapping[int, Ints]) -> bool:
    """Fill the arrays if all types up to the last column take one byte each; else return False.

    The types of a column then lie at the same place of each header, and tell where its values end. Most
    columns of a block have one type. Until the first whose values differ in size, each lies at the same
    place of each record: these are read from copies of the records side by side.
    """
    count = max(columns) + 1
    heads = _pieces(data, records.start, 1 + count)
    if not len(heads):
        return False
    header, *kinds = _by_place(heads)
    if np.min(header) <= count or max(map(_largest, (header, *kinds))) > _SHORT:
        return False
    end: Any = header if isinstance(header, int) else header.astype(np.int16)
    ends = []  # each one number for all rows, until sizes differ
    for kind in kinds:
        if isinstance(kind, int):
            size: Any = _SIZE_BYTES[kind]
            reserved = _RESERVED <= kind < _TEXTS
        else:
            sizes = np.frombuffer(kind.tobytes().translate(_SIZE_BYTES), np.uint8)
            size = sizes.astype(np.int16) if sizes.min() < sizes.max() else int(sizes[0])
            reserved = kind.max() > _LAST_NUMBER and bool(((kind >= _RESERVED) & (kind < _TEXTS)).any())
        if reserved:
            raise NotPlain("damaged records")
        end = end + size
        ends.append(end)
    if (end > records.local).any():
        raise NotPlain("short, long or damaged records")
    if ((header == count + 1) & (end != records.payload)).any():
        raise NotPlain("damaged records")
    leading = [end for end in ends if isinstance(end, int)]
    copies = (
        _pieces(data, records.start - _WORD, _WORD + leading[-1]) if min(columns) < len(leading) else None
    )
    for column, out in columns.items():
        kind, end = kinds[column], ends[column]
        if copies is not None and isinstance(end, int) and isinstance(kind, int):
            _same_kind(copies, end, kind, out)
        else:
            _integers(data, records.start + end, np.uint8(kind) if isinstance(kind, int) else kind, out)
    return True


def _largest(byte: Bytes | int) -> int:
    return byte if isinstance(byte, int) else int(byte.max())


def _by_place(pieces: NDArray[np.void]) -> Iterator[Bytes | int]:
    """Yield each byte of the pieces: one number if all have the same, else an array."""
    size = pieces.itemsize
    width = _WORD if size >= _WORD else 1  # of what is compared at once
    differ = set[int]()
    for at in {min(at, size - width) for at in range(0, size, width)}:
        words = np.ndarray(len(pieces), f"<u{width}", pieces, at, (size,))
        marks = int(np.bitwise_or.reduce(words ^ words[0])).to_bytes(width, "little")
        differ.update(at + place for place, mark in enumerate(marks) if mark)
    for at, byte in enumerate(pieces[:1].tobytes()):
        yield np.ndarray(len(pieces), np.uint8, pieces, at, (size,)).copy() if at in differ else byte


def _read_by_record(data: Bytes, records: Records, columns: Mapping[int, Ints]) -> None:
    header, kind_at = varints(data, records.start)
    header_end = records.start + header
    value_end, limit = header_end.copy(), records.start + records.local
    for column in range(max(columns) + 1):
        kinds, kind_at = varints(data, kind_at)
        value_end += _sizes(kinds)
        if column in columns:
            if (kind_at > header_end).any() or (value_end > limit).any():
                raise NotPlain("short, long or damaged records")
            _integers(data, value_end, kinds, columns[column])
    if ((kind_at == header_end) & (value_end != records.start + records.payload)).any():
        raise NotPlain("damaged records")


def rowid(page: bytes, row: int) -> int:
    """Return the rowid of a row of a leaf page; rows count from 0."""
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


def _cells(block: LeafBlock, rows: Ints) -> CellStarts:
    first = block.starts + PAGE_HEADER_BYTES - 2 * (np.cumsum(rows) - rows)
    pointers = np.repeat(first >> 1, rows)  # as places of numbers of two bytes
    pointers += np.arange(len(pointers))
    offset = block.data.view(">u2")[pointers].astype(np.int64)
    if offset.min() < PAGE_HEADER_BYTES:
        raise NotPlain("a damaged leaf page")
    return CellStarts(offset + np.repeat(block.starts, rows), offset)


def _behind_sizes(data: Bytes, cells: Ints) -> tuple[Ints, Ints]:
    """Return the start of the record in each cell, behind its size and rowid, and the size in bytes."""
    begins = _pieces(data, cells, 8)
    words = _eights(begins, 0, "<u8")
    start = cells.copy()
    forms = _forms(words & _CONTINUED if len(begins) else words)
    for form, rows in forms:
        size, number = _varint_bytes(form), _varint_bytes(form >> 8 * _varint_bytes(form))
        if size > 1 or size + number > _WORD:
            forms = []
            break
        start[rows] += size + number
    if forms:
        return start, (words & _LOW).view(np.int64)
    payload, rowids = varints(data, cells)
    return _behind_varints(data, rowids), payload


def _forms(words: NDArray[np.uint64]) -> list[tuple[int, Rows]]:
    """Return the distinct words with the rows of each; none if they are more than a few."""
    forms: list[tuple[int, Rows]] = []
    rows: Rows = slice(None)
    while len(words):
        form = int(words[0])
        rest = np.flatnonzero(words != form)
        if not len(rest):
            return [*forms, (form, rows)]
        if len(forms) == _FORMS:
            break
        same = np.flatnonzero(words == form)
        forms.append((form, same if isinstance(rows, slice) else rows[same]))
        rows, words = rest if isinstance(rows, slice) else rows[rest], words[rest]
    return []


def _varint_bytes(continued: int) -> int:
    """Return the length of the varint whose bytes, lowest first, are marked by their highest bits."""
    return next((length for length in range(1, 9) if not continued >> 8 * length - 1 & 1), 9)


def _local(payload: Ints, page_bytes: int) -> Ints:
    """Return how many bytes of each record are in its leaf; the others are in overflow pages."""
    most = page_bytes - 35
    if payload.max() <= most:
        return payload
    least = (page_bytes - 12) * 32 // 255 - 23
    part = least + (payload - least) % (page_bytes - 4)
    return np.where(payload <= most, payload, np.where(part <= most, part, least))


def varints(data: Bytes, at: Ints, longest: int = _LONG) -> tuple[Ints, Ints]:
    """Return the varints (seven bits per byte) at these positions, and the positions after them.

    Raises NotPlain if one has more than ``longest`` bytes, up to 8.
    """
    numbers = data.take(at, mode="clip")
    at = at + 1
    if numbers.max() <= _SHORT:
        return numbers, at  # type: ignore[return-value]  # bytes, as they are
    more = numbers > _SHORT
    values = numbers.astype(np.int64) & _SHORT
    for _ in range(longest - 1):
        byte = data.take(at, mode="clip")
        values = np.where(more, values << 7 | byte & _SHORT, values)
        at += more
        more &= byte > _SHORT
        if not more.any():
            return values, at
    raise NotPlain("records of 256 MiB or more")


def _behind_varints(data: Bytes, at: Ints) -> Ints:
    """Return the positions after the varints; the ninth byte of a varint is always its last."""
    more = np.ones(len(at), bool)
    for _ in range(8):
        more &= data.take(at, mode="clip") > _SHORT
        if not more.any():
            break
        at = at + more
    return at + 1


def _sizes(kinds: Ints) -> Ints:
    """Return the sizes of values in bytes; a single size if all types are equal."""
    if kinds.max() > _SHORT:
        return np.where(kinds > _SHORT, (kinds - 12) // 2, _SIZES.take(kinds, mode="clip"))
    if kinds.min() == kinds.max():
        return _SIZES[kinds[:1]]
    return _SIZES.take(kinds)


def _integers(data: Bytes, ends: Ints, kinds: Ints | Bytes | np.uint8, out: Ints) -> None:
    """Read the integers that end at these positions, from the eight bytes before each end.

    The header of a page is long enough for eight bytes before the first value.
    """
    if kinds.max() > _LAST_NUMBER or (kinds == _FLOAT).any():
        raise NotPlain("a value that is not an integer")
    if not ((kinds > 0) & (kinds < _FLOAT)).any():
        out[:] = _WITHOUT_BYTES.take(kinds)
        return
    shifts = _SHIFTS.take(kinds.min() if kinds.min() == kinds.max() else kinds)
    # Copying bytes, then swapping all, takes two thirds of the time of gathering numbers in this order.
    eights = _pieces(data, ends - _WORD, _WORD).view(">i8")
    out[:] = eights.byteswap(inplace=True).view("<i8")
    out <<= shifts
    out >>= shifts
    if kinds.max() >= _EIGHT_BYTES and out.min() == MISSING:
        raise NotPlain("the number that stands for a missing value")
    for kind, value in _CONSTANTS.items():
        constant = kinds == kind
        if constant.any():
            np.putmask(out, constant, value)
