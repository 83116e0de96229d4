"""Make small arrays of large tables block by block, so that the columns themselves are never in memory.

What needs no single row, such as sums by name, passes a function ``work`` to ``Capture.stream``. A block goes
this way:

1. a thread reads its pages into columns, and calls ``noting(work)``
2. that returns the arrays of ``work``, and a note: extremes of each column, times of smaller blocks
3. ``Extremes.noted`` keeps the note, and ``joined`` puts the arrays behind those of the block before

After the last block ``Export`` checks the extremes as it checks whole columns. ``work`` returns arrays of one
length under the same names for each block; their types may differ. If the pages have another number of rows
than was thought, all begins anew, so ``work`` may see a block twice. So five summaries of 10,000,000 kernels
take 450 MB, a third of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base.constants import MISSING

Columns = dict[str, NDArray[Any]]
_Ends = tuple[NDArray[Any], NDArray[Any]]

_FEW = 16  # numbers, from which on np.isin is as fast as comparing with each
BLOCK_ROWS = 1 << 14  # intermediate arrays of so many rows stay in a core's own cache
_TIMED_ROWS = 1 << 12
_INT32 = np.iinfo(np.int32)


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Return integers as int32 if each of them fits, else as they are."""
    if values.min(initial=0) < _INT32.min or values.max(initial=0) > _INT32.max:
        return values
    return values.astype(np.int32, copy=False)


def looked_up(table: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
    """Return ``table[positions]``, in less time and memory.

    numpy indexes by positions of less than eight bytes in three times the time that ``take`` needs, which
    copies them to eight bytes each: that is done block by block.
    """
    if len(positions) <= BLOCK_ROWS or positions.dtype == np.intp:
        return table.take(positions, axis=0)
    found = np.empty((len(positions), *table.shape[1:]), table.dtype)
    for first in range(0, len(positions), BLOCK_ROWS):
        rows = slice(first, first + BLOCK_ROWS)
        found[rows] = table.take(positions[rows], axis=0)  # out= is faster only if it checks no position
    return found


def one_of(values: NDArray[Any], numbers: Iterable[int]) -> NDArray[Any]:
    """Mark the values that are one of these numbers. For a few, np.isin takes ten times as long."""
    few = [*numbers]
    if len(values) <= _FEW:
        return np.array([value in few for value in values.tolist()], dtype=bool)
    if len(few) > _FEW:
        return np.isin(values, few)
    marks = np.zeros(len(values), dtype=bool)
    for number in few:
        marks |= values == number
    return marks


def in_blocks(columns: Mapping[str, NDArray[Any]], work: Callable[[Columns], Columns]) -> Columns:
    """Return the arrays that ``work`` makes of the columns, block by block, each joined."""
    rows = len(next(iter(columns.values())))
    if rows <= BLOCK_ROWS:
        return work({**columns})
    parts = (
        work({name: values[first : first + BLOCK_ROWS] for name, values in columns.items()})
        for first in range(0, rows, BLOCK_ROWS)
    )
    return joined(parts, rows)


def joined(parts: Iterable[Columns], rows: int) -> Columns:
    """Join the parts, of at most so many rows, as they come, so that they do not stay in memory beside it."""
    arrays: Columns = {}
    first = 0
    for part in parts:
        last = first
        for name, values in part.items():
            array = arrays[name] if first else np.empty(rows, values.dtype)
            kind = np.promote_types(array.dtype, values.dtype)
            arrays[name] = array.astype(kind, copy=False)
            last = first + len(values)
            arrays[name][first:last] = values
        first = last
    return {name: array[:first] for name, array in arrays.items()}


class BlockTimes(NamedTuple):
    """The number of rows of each block of a table, and the first and the last time in it, in ns."""

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def block_times(start: NDArray[Any], end: NDArray[Any]) -> BlockTimes:
    """Return the times of blocks of rows. They are small: windows read those that can have a row in them."""
    return _times(len(start), _ends_by_block(start), _ends_by_block(end))


def _ends_by_block(values: NDArray[Any]) -> _Ends:
    """Return the smallest and the largest value of each small block."""
    begins = np.arange(0, len(values), _TIMED_ROWS)
    return np.minimum.reduceat(values, begins), np.maximum.reduceat(values, begins)


def _times(rows: int, start: _Ends, end: _Ends) -> BlockTimes:
    lengths = np.diff(np.arange(0, rows, _TIMED_ROWS), append=rows)
    return BlockTimes(lengths, np.minimum(start[0], end[0]), np.maximum(start[1], end[1]))


class _Note(NamedTuple):
    """What is known of a block: the smallest and largest value of each column, and its times."""

    ends: dict[str, tuple[int, int]]
    times: BlockTimes | None


class Extremes:
    """The smallest and largest values of streamed columns, and the times of small blocks of them."""

    def __init__(self) -> None:
        self._notes: list[_Note] = []

    def noted(self, parts: Iterable[tuple[_Note, Columns]]) -> Iterator[Columns]:
        """Yield what ``work`` made of each block, and keep the note on it. Blocks before are forgotten."""
        self._notes.clear()
        for note, part in parts:
            self._notes.append(note)
            yield part

    def of(self, name: str) -> tuple[int, int]:
        """Return the smallest and the largest value of a column; MISSING is the smallest."""
        lows, highs = zip(*(note.ends[name] for note in self._notes), strict=True)
        return min(lows, default=MISSING), max(highs, default=MISSING)

    def times(self) -> BlockTimes | None:
        """Return the times of all blocks, if starts and ends were streamed."""
        times = [note.times for note in self._notes if note.times]
        return BlockTimes(*map(np.concatenate, zip(*times, strict=True))) if times else None


def noting(work: Callable[[Columns], Columns]) -> Callable[[Columns], tuple[_Note, Columns]]:
    """Return ``work`` with a note on the block for ``Extremes.noted``."""
    return lambda columns: (_note(columns), work(columns))


def _note(columns: Columns) -> _Note:
    by_block = {name: _ends_by_block(values) for name, values in columns.items()}
    ends = {name: (int(low.min()), int(high.max())) for name, (low, high) in by_block.items()}
    timed = columns.keys() >= {"start", "end"}
    return _Note(ends, _times(len(columns["start"]), by_block["start"], by_block["end"]) if timed else None)
