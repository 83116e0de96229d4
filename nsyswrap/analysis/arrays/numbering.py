"""Number the few distinct values of a large column block by block."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.capture.stream import looked_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS = 16
_SIZE = 1 << _BITS
_TINY = 1 << 8
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 by the golden ratio: spreads neighbors over the table
_SHIFT = np.uint64(64 - _BITS)


class Numbering:
    """Numbers int64 values as they come, from several threads; ``ranked`` puts the numbers in order.

    A value is looked up in a table by its lowest bits, or by a hash if ``sparse``. Of values that share a
    place there only one can have it; a block with the others takes longer.
    """

    def __init__(self, *, sparse: bool = False) -> None:
        """Begin without values. ``sparse`` values are not ids that count up."""
        self._sparse = sparse
        self._numbers: dict[int, int] = {}
        self._value_at = np.zeros(_SIZE, np.int64)
        self._number_at = np.full(_SIZE, -1, np.int32)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many distinct values have come."""
        return len(self._numbers)

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return one number per value, in as few bytes as they take."""
        places = self._places(values)
        numbers = self._number_at[places]
        if numbers.min(initial=0) < 0 or not (self._value_at[places] == values).all():
            return self._learned(values)
        return self._narrow(numbers)

    def ranked(self, numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the distinct values, ascending, and the position of each row's value among them."""
        values = np.fromiter(self._numbers, np.int64, len(self._numbers))
        order = np.argsort(values)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return values[order], looked_up(self._narrow(rank), numbers)

    def _places(self, values: NDArray[Any]) -> NDArray[Any]:
        if self._sparse:
            hashed = values.view(np.uint64) * _FACTOR
            return (hashed >> _SHIFT).view(np.int64)
        return values & (_SIZE - 1)

    def _learned(self, values: NDArray[Any]) -> NDArray[Any]:
        known, codes = distinct(values)
        with self._lock:
            numbers = np.array(
                [self._numbers.setdefault(value, len(self._numbers)) for value in known.tolist()], np.int32
            )
            places = self._places(known)
            # A place is written once, the number last: other threads read it meanwhile.
            first = np.unique(places, return_index=True)[1]
            free = first[self._number_at[places[first]] < 0]
            self._value_at[places[free]] = known[free]
            self._number_at[places[free]] = numbers[free]
        of_row: NDArray[Any] = self._narrow(numbers)[codes]
        return of_row

    def _narrow(self, numbers: NDArray[Any]) -> NDArray[Any]:
        known = len(self._numbers)
        kind: type = np.uint8 if known <= _TINY else np.uint16 if known <= _SIZE else np.int32
        return numbers.astype(kind)
