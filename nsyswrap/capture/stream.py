"""Make small arrays of large tables block by block, so that the columns themselves are never in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    Columns = dict[str, NDArray[Any]]

BLOCK_ROWS = 1 << 16  # intermediate arrays of so many rows stay in the CPU cache
_INT32 = np.iinfo(np.int32)


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Return integers as int32 if each of them fits, else as they are."""
    if values.min(initial=0) < _INT32.min or values.max(initial=0) > _INT32.max:
        return values
    return values.astype(np.int32, copy=False)


def looked_up(table: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
    """Return ``table[positions]`` block by block, as numpy copies small positions to eight bytes each."""
    return in_blocks({"": positions}, lambda block: {"": table[block[""]]})[""]


def in_blocks(columns: Mapping[str, NDArray[Any]], work: Callable[[Columns], Columns]) -> Columns:
    """Return the arrays that ``work`` makes of the columns, block by block, each joined."""
    rows = len(next(iter(columns.values())))
    parts = (
        work({name: values[first : first + BLOCK_ROWS] for name, values in columns.items()})
        for first in range(0, max(rows, 1), BLOCK_ROWS)
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


class Extremes:
    """The smallest and largest values of streamed columns, and the sum of all durations."""

    def __init__(self) -> None:
        """Begin without values."""
        self._noted: list[dict[str, tuple[int, int]]] = []
        self._lasting: list[float] = []

    def clear(self) -> None:
        """Forget all blocks, as they are read again."""
        self._noted.clear()
        self._lasting.clear()

    def noting(self, work: Callable[[Columns], Columns]) -> Callable[[Columns], Columns]:
        """Return ``work`` with each block noted; threads can do so at the same time."""

        def noted(columns: Columns) -> Columns:
            self._note(columns)
            return work(columns)

        return noted

    def _note(self, columns: Columns) -> None:
        self._noted.append({name: (int(part.min()), int(part.max())) for name, part in columns.items()})
        if columns.keys() >= {"start", "end"}:
            self._lasting.append(float(np.abs(columns["end"] - columns["start"]).sum(dtype=float)))

    def of(self, name: str) -> tuple[int, int]:
        """Return the smallest and the largest value of a column; MISSING is the smallest."""
        lows, highs = zip(*(block[name] for block in self._noted), strict=True)
        return min(lows, default=MISSING), max(highs, default=MISSING)

    @property
    def lasting(self) -> float:
        """The sum of all durations in ns, about."""
        return sum(self._lasting)
