"""Grouped statistics, once, as nsys defines them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

_RADIX = 2**16
_SMALL = 64  # rows a group has on average, from which on a loop over groups pays
_DENSE = 4  # numbers a table may have for every row
_HANDFUL = 64


@dataclass(frozen=True)
class Statistics:
    """One entry per group. ``count``, ``total``, ``min``, ``max`` are int64, the others float64.

    A group without values has count 0, deviation 0.0 and NaN for average and median; its ``min`` and
    ``max`` mean nothing.
    """

    count: NDArray[Any]
    total: NDArray[Any]
    avg: NDArray[Any]
    med: NDArray[Any]
    min: NDArray[Any]
    max: NDArray[Any]
    std: NDArray[Any]


def grouped(codes: NDArray[Any], values: NDArray[Any], groups: int) -> Statistics:
    """Return the statistics of int64 ``values`` per group code in ``range(groups)``.

    The deviation is the sample's (n - 1), 0.0 for a single value. The median is the middle value, or
    the mean of the two middle ones.
    """
    return Groups(codes, groups).of(values)


def order_by_code(codes: NDArray[Any], groups: int) -> NDArray[np.intp]:
    """Return the rows by their code in ``range(groups)``; rows of one code stay in their order."""
    # numpy sorts 16-bit integers by radix, which takes a tenth of the time.
    narrow = codes.astype(np.uint16) if groups <= _RADIX else codes
    return np.argsort(narrow, kind="stable")


class Groups:
    """Rows by group, sorted once for the statistics of several columns."""

    def __init__(self, codes: NDArray[Any], groups: int) -> None:
        """Take a group code in ``range(groups)`` per row."""
        self._count = np.bincount(codes, minlength=groups)
        self._filled = self._count > 0
        self._first = np.cumsum(self._count) - self._count
        self._order = order_by_code(codes, groups)
        self._large = np.count_nonzero(self._filled) * _SMALL <= len(codes)

    def of(self, values: NDArray[Any]) -> Statistics:
        """Return the statistics of one int64 value per row, as ``grouped`` does."""
        count, first = self._count, self._first
        ordered = self._sorted(values)
        if not len(ordered):
            nothing, unknown = np.zeros_like(count), np.full(len(count), np.nan)
            return Statistics(count, nothing, unknown, unknown, nothing, nothing, np.zeros(len(count)))
        total = self._sums(ordered)
        with np.errstate(invalid="ignore", divide="ignore"):
            avg = total / count
        last = len(ordered) - 1
        low, high = (ordered[np.minimum(first + middle, last)] for middle in ((count - 1) // 2, count // 2))
        return Statistics(
            count=count,
            total=total,
            avg=avg,
            med=np.where(self._filled, (low + high) / 2, np.nan),
            min=np.where(self._filled, ordered[np.minimum(first, last)], 0),
            max=np.where(self._filled, ordered[first + count - 1], 0),
            std=np.sqrt(self._squares(ordered, avg) / np.maximum(count - 1, 1)),
        )

    def quantile(self, values: NDArray[Any], share: float) -> NDArray[Any]:
        """Return one quantile per group, as nsys defines its quartiles; NaN in a group without values.

        Of n values in order it is the one behind the first n * share of them; where that is a whole number,
        the mean of those on both sides.
        """
        ordered = self._sorted(values)
        if not len(ordered):
            return np.full(len(self._count), np.nan)
        exact = Fraction(str(share))  # 0.07 * 100 is no whole number to a float
        whole, rest = np.divmod(self._count * exact.numerator, exact.denominator)
        high = np.minimum(whole, self._count - 1)
        low = np.where((rest == 0) & (whole > 0), whole - 1, high)
        before, behind = (ordered[np.clip(self._first + at, 0, len(ordered) - 1)] for at in (low, high))
        return np.where(self._filled, (before + behind) / 2, np.nan)

    def _sorted(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values by group and, in each, ascending."""
        ordered = values[self._order]
        if self._large:  # groups that fit the processor's cache, one after another
            for rows in self._slices():
                ordered[rows].sort()
            return ordered
        codes = np.repeat(np.arange(len(self._count)), self._count)
        return ordered[np.lexsort((ordered, codes))]

    def _squares(self, ordered: NDArray[Any], avg: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of the squared deviations of each group."""
        if not self._large:
            deviations = ordered - np.repeat(avg[self._filled], self._count[self._filled])
            return self._sums(deviations * deviations)
        squares = np.zeros(len(avg))
        groups = np.flatnonzero(self._filled)
        for group, rows in zip(groups.tolist(), self._slices(), strict=True):
            deviations = ordered[rows] - avg[group]
            deviations *= deviations  # np.dot would start BLAS and its threads
            squares[group] = deviations.sum()
        return squares

    def _slices(self) -> Iterator[slice]:
        first = self._first[self._filled]
        return map(slice, first.tolist(), (first + self._count[self._filled]).tolist())

    def _sums(self, ordered: NDArray[Any]) -> NDArray[Any]:
        sums = np.zeros(len(self._count), ordered.dtype)
        sums[self._filled] = np.add.reduceat(ordered, self._first[self._filled])
        return sums


def distinct(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct int64 values, ascending, and the position among them of each row's.

    As np.unique with its inverse; without sorting where the values are dense, as ids are, or few.
    """
    if not len(values):
        return values, np.empty(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if low == MISSING:
        known = values != MISSING
        found, codes = distinct(values[known])
        all_codes = np.zeros(len(values), np.int64)
        all_codes[known] = codes + 1
        return np.concatenate(([MISSING], found)), all_codes
    if high - low < _DENSE * len(values):
        return _dense(values, low, high)
    return _few(values) or np.unique(values, return_inverse=True)


def _dense(values: NDArray[Any], low: int, high: int) -> tuple[NDArray[Any], NDArray[Any]]:
    there = np.zeros(high - low + 1, dtype=bool)
    there[values - low] = True
    found = np.flatnonzero(there)
    number = np.zeros(len(there), np.int64)
    number[found] = np.arange(len(found))
    return found + low, number[values - low]


def _few(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Number a handful of distinct values, as process ids are; None where there are more."""
    found: list[int] = []
    rest = values
    while len(rest):
        if len(found) == _HANDFUL:
            return None
        found.append(int(rest[0]))
        rest = rest[rest != found[-1]]
    found.sort()
    codes = np.zeros(len(values), np.int64)
    for number, value in enumerate(found[1:], 1):
        codes[values == value] = number
    return np.array(found), codes


def group_keys(*keys: NDArray[Any]) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Number the distinct rows of the key columns in ascending order.

    Returns a code per row, and the key columns with one entry per code.
    """
    found, codes = distinct(keys[0])
    columns = [found]
    for key in keys[1:]:
        found, inner = distinct(key)
        pairs, codes = distinct(codes * len(found) + inner)  # below the square of the rows: no overflow
        columns = [
            *(column[pairs // max(len(found), 1)] for column in columns),
            found[pairs % max(len(found), 1)],
        ]
    return codes, columns


def text_codes(ids: NDArray[Any], text: Callable[[int], str | None]) -> tuple[NDArray[Any], list[str | None]]:
    """Return a code per id and the text of each code, in the texts' order; each id's is asked for once."""
    known, positions = distinct(ids)
    return _ranked(positions, [text(i) for i in known.tolist()])


def number_texts(ids: NDArray[Any], texts: Sequence[str | None]) -> tuple[NDArray[Any], list[str | None]]:
    """Number text by its order, None first: one text can stand behind several ids.

    ``texts[i]`` is the text of the i-th distinct id in ascending order. Returns a code per row and the
    text of each code.
    """
    return _ranked(distinct(ids)[1], texts)


def _ranked(positions: NDArray[Any], texts: Sequence[str | None]) -> tuple[NDArray[Any], list[str | None]]:
    ordered = sorted(set(texts), key=lambda text: (text is not None, text or ""))
    rank = {text: code for code, text in enumerate(ordered)}
    ranks = np.fromiter((rank[text] for text in texts), np.int64, len(texts))
    return ranks[positions] if len(positions) else np.empty(0, np.int64), ordered
