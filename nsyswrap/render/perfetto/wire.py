"""Encode columns as protobuf messages, one message a row, without a Python object a row.

The messages of n rows are a matrix of bytes and a mask of those that count. A column is put beside another
like a cell in a table, and the bytes that count, read row by row, are the messages one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base.records import dataclass

VARINT, FIXED64, BYTES = 0, 1, 2  # types on the wire
_PAYLOAD, _MORE, _SHIFT = 0x7F, 0x80, 7
_SHORT = [bytes([value]) for value in range(_MORE)]


@dataclass(frozen=True)
class WireCells:
    """Bytes of n rows: ``data`` is n x width, ``held`` marks the bytes that count, ``size`` counts them."""

    data: NDArray[np.uint8]
    held: NDArray[np.bool_]
    size: NDArray[Any]

    def take(self, rows: NDArray[Any]) -> WireCells:
        """Return these rows, as often as they are named."""
        return WireCells(self.data[rows], self.held[rows], self.size[rows])

    def where(self, known: NDArray[np.bool_]) -> WireCells:
        """Return the cells with no bytes in the other rows."""
        return WireCells(self.data, self.held & known[:, None], np.where(known, self.size, 0))

    def aligned(self) -> WireCells:
        """Return the cells with the bytes of each row at its left, in no more columns than needed."""
        held = np.arange(self.size.max(initial=0)) < self.size[:, None]
        data = np.zeros(held.shape, np.uint8)
        data[held] = self.data[self.held]
        return WireCells(data, held, self.size)


def sizes(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of bytes of each number as a varint. Negative ones take ten, as in protobuf."""
    values = values.astype(np.uint64)
    size = np.ones(len(values), np.int64)
    for place in range(_SHIFT, int(values.max(initial=0)).bit_length(), _SHIFT):
        size += values >> np.uint64(place) > 0
    return size


def digits(values: NDArray[Any], width: int) -> NDArray[np.uint8]:
    """Return numbers as varints of ``width`` bytes, which must be enough for each."""
    places = np.arange(width, dtype=np.uint64) * np.uint64(_SHIFT)
    data = (values.astype(np.uint64)[:, None] >> places).astype(np.uint8) | np.uint8(_MORE)
    data[:, -1] &= _PAYLOAD
    return data


def varints(values: NDArray[Any]) -> WireCells:
    """Return numbers as varints."""
    size = sizes(values)
    data = digits(values, int(size.max(initial=1)))
    data[np.arange(len(size)), size - 1] &= _PAYLOAD
    return WireCells(data, np.arange(data.shape[1]) < size[:, None], size)


def items(data: NDArray[np.uint8], width: int, step: int) -> NDArray[np.void]:
    """Return a view of contiguous bytes as items of ``width`` bytes, which begin ``step`` bytes apart.

    Copying an item copies its bytes at once.
    """
    return np.ndarray((data.size - width) // step + 1, f"V{width}", data, strides=(step,))


def constant(raw: bytes, rows: int) -> WireCells:
    """Return the same bytes in each row."""
    data = np.broadcast_to(np.frombuffer(raw, np.uint8), (rows, len(raw)))
    return WireCells(data, np.broadcast_to(np.True_, data.shape), np.full(rows, len(raw)))


def joined(parts: Sequence[WireCells]) -> WireCells:
    """Return the bytes of all parts, row by row."""
    return WireCells(
        np.hstack([part.data for part in parts]),
        np.hstack([part.held for part in parts]),
        np.sum([part.size for part in parts], axis=0),
    )


def stacked(parts: Sequence[WireCells]) -> WireCells:
    """Return the rows of all parts one after another."""
    width = max(part.data.shape[1] for part in parts)
    wide = [[(0, 0), (0, width - part.data.shape[1])] for part in parts]
    return WireCells(
        np.concatenate([np.pad(part.data, by) for part, by in zip(parts, wide, strict=True)]),
        np.concatenate([np.pad(part.held, by) for part, by in zip(parts, wide, strict=True)]),
        np.concatenate([part.size for part in parts]),
    )


def message_cells(number: int, *parts: WireCells) -> WireCells:
    """Return a field of a message in each row; ``parts`` are the bytes of the message."""
    size = np.sum([part.size for part in parts], axis=0)
    return joined([constant(tag(number, BYTES), len(size)), varints(size), *parts])


def varint_cells(number: int, values: NDArray[Any]) -> WireCells:
    """Return a field with a number in each row."""
    return joined([constant(tag(number, VARINT), len(values)), varints(values)])


def fixed_cells(number: int, values: NDArray[Any]) -> WireCells:
    """Return a field of eight bytes in each row: a double, or an integer without sign."""
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    return joined(
        [
            constant(tag(number, FIXED64), len(values)),
            WireCells(raw, np.broadcast_to(np.True_, raw.shape), np.full(len(values), raw.shape[1])),
        ]
    )


@cache
def tag(number: int, wire: int) -> bytes:
    """Return the bytes before a field."""
    return varint(number << 3 | wire)


def varint(value: int) -> bytes:
    """Return a number as a varint. A negative one takes ten bytes."""
    if 0 <= value <= _PAYLOAD:
        return _SHORT[value]
    value &= (1 << 64) - 1
    raw = bytearray()
    while value > _PAYLOAD:
        raw.append(value & _PAYLOAD | _MORE)
        value >>= _SHIFT
    return bytes([*raw, value])


def number_field(number: int, value: int) -> bytes:
    """Return a field with a number."""
    return tag(number, VARINT) + varint(int(value))


def field(number: int, content: bytes | str) -> bytes:
    """Return a field with a text or a message."""
    raw = content.encode("utf-8", "replace") if isinstance(content, str) else content
    return tag(number, BYTES) + varint(len(raw)) + raw
