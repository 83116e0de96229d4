"""Number the distinct values of columns, and compute statistics per group as nsys defines them.

``GroupBy`` sorts the rows of a column in two stages. First by group, in steps of ``PART`` rows and with
threads: of each step a radix sort of the codes gives the order, and the next free place of each group tells
where its values belong. Then within the groups, several of them at a time:

- one group: ``np.sort``, without the first stage
- groups of ``_LOOP_ROWS`` rows or more on average: one sort for each
- smaller groups: one sort of ``group * width + value`` for all, where ``width`` is the range of the values
- smaller groups whose numbers would exceed ``MOST``, or of floats: ``np.lexsort``, in three times the time

``distinct`` sorts only what is neither dense (a lookup table) nor a handful of values (compared with each).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.records import dataclass
from nsyswrap.base.threads import in_threads
from nsyswrap.capture.stream import BLOCK_ROWS, in_blocks, looked_up, narrow

_RADIX, _RADIX_BYTES = 2**16, 2  # groups that 16-bit codes can number
PART = 2**16  # rows at a time, so that intermediate arrays stay in the CPU cache
_LOOP_ROWS = 16  # average rows per group from which a Python loop over groups is faster
_THREADS, _FEW_STEPS = 4, 16  # up to so many steps, importing threads takes longer than the work
_DENSE = 4  # largest ratio of the range of values to the rows for which a lookup table is used
_TRIMMED = 10  # one in so many values is left out of a trimmed mean at either end
_BLOCKS = 16  # of consecutive values: their means tell the error of a mean
_FEW_VALUES = 256  # up to which sorting is faster than finding the middle
_HANDFUL = 64  # distinct values up to which comparing with each is faster than sorting
_FIRST = 1000  # values that mostly hold each distinct one of a handful
# More pairs than any program makes of nested ranges, or of operations and calls with one correlation id.
_MOST_PAIRS, _PAIRS_PER_ROW = 2**23, 64
MOST = 2**62  # no sum or number of a group may be larger, as int64 would wrap silently


@dataclass(frozen=True)
class Statistics:
    """One entry per group: ``count``, ``total``, ``min`` and ``max`` are int64, the others float64.

    A group without values has count 0, deviation 0.0 and NaN for average and median. Its ``min`` and ``max``
    have no meaning.
    """

    count: NDArray[Any]
    total: NDArray[Any]
    avg: NDArray[Any]
    med: NDArray[Any]
    min: NDArray[Any]
    max: NDArray[Any]
    std: NDArray[Any]


def grouped(codes: NDArray[Any], values: NDArray[Any], groups: int) -> Statistics:
    """Return the statistics of int64 ``values`` for each group code in ``range(groups)``.

    The deviation is the sample standard deviation (n - 1), 0.0 for a single value. The median of an even
    number of values is the mean of the two middle ones.
    """
    return GroupBy(codes, groups).of(values)


def order_by_code(codes: NDArray[Any], groups: int) -> NDArray[np.intp]:
    """Return the rows sorted by their code in ``range(groups)``; the sort is stable."""
    # numpy sorts 16-bit integers by radix, in a tenth of the time.
    narrow = codes.astype(np.uint16) if groups <= _RADIX and codes.itemsize > _RADIX_BYTES else codes
    return np.argsort(narrow, kind="stable")


def largest_first(values: NDArray[Any], most: int) -> NDArray[np.intp]:
    """Return the positions of the ``most`` largest values, the largest first; equal ones in order."""
    rows = np.arange(len(values))
    if most < len(values):  # the others are not sorted
        place = len(values) - max(most, 1)
        rows = np.flatnonzero(values >= np.partition(values, place)[place])
    return rows[np.argsort(-values[rows], kind="stable")][:most]


class GroupBy:
    """Rows sorted by group once, for the statistics of several columns."""

    def __init__(self, codes: NDArray[Any], groups: int) -> None:
        """Take one group code per row; rows with a code that is not in ``range(groups)`` are in no group."""
        self._codes = codes
        if len(codes) <= PART:
            self._step, self._all_counts = PART, np.bincount(codes, minlength=max(groups, 1))
        else:
            size = max(groups, int(codes.max()) + 1)
            self._step, self._all_counts = max(PART, size), np.zeros(size, np.intp)
            for rows in self._steps():
                self._all_counts += np.bincount(codes[rows], minlength=size)
        self._count = self._all_counts[:groups]
        self._filled, self._number, self._begin = _filled(self._count)
        self._last: tuple[NDArray[Any], NDArray[Any]] | None = None

    def of(self, values: NDArray[Any], *, least: int | None = None) -> Statistics:
        """Return the statistics of one integer per row, as ``grouped`` defines them.

        Values below ``least`` do not count. Raises OverflowError if the sum of all values could exceed 64
        bits.
        """
        ordered, count = self.ordered(values), self._count
        filled, number, begin = self._filled, self._number, self._begin
        if least is not None:
            enough = ordered >= least
            count, ordered = self._sums(enough), ordered[enough]
            filled, number, begin = _filled(count)
        if not len(filled):
            nothing, unknown = np.zeros_like(count), np.full(len(count), np.nan)
            return Statistics(count, nothing, unknown, unknown, nothing, nothing, np.zeros(len(count)))
        kind = np.result_type(ordered, np.int64)
        several = len(ordered) > len(filled)
        last = begin + (number - 1)
        places = (begin, (begin + last) // 2, begin + number // 2, last) if several else [slice(None)] * 4
        lowest, low, high, highest = (ordered[place].astype(kind, copy=False) for place in places)
        if max(highest.max(), -lowest.min()) > MOST // len(ordered):
            check_sum(ordered)
        total, squares = lowest.copy(), np.zeros(len(filled))
        for part in _parts(number) if several else ():
            first, each = begin[part], number[part]
            rows = ordered[first[0] : first[-1] + each[-1]]
            first = first - first[0]
            total[part] = np.add.reduceat(rows, first, dtype=kind)
            mean = total[part] / each
            deviations = rows - (mean.repeat(each) if len(each) > 1 else mean)
            deviations *= deviations  # np.dot would start BLAS and its threads
            squares[part] = np.add.reduceat(deviations, first)
        return Statistics(
            count=count,
            total=_expanded(total, 0, filled, count),
            avg=_expanded(total / number, np.nan, filled, count),
            med=_expanded((low + high) / 2, np.nan, filled, count),
            min=_expanded(lowest, 0, filled, count),
            max=_expanded(highest, 0, filled, count),
            std=_expanded(np.sqrt(squares / np.maximum(number - 1, 1)), 0, filled, count),
        )

    def totals(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of each group without sorting the values; raises OverflowError as ``of`` does."""
        by_group = self._by_group(values)
        if len(by_group) and max(by_group.max(), -by_group.min()) > MOST // len(by_group):
            check_sum(by_group)
        return self._sums(by_group)

    def quantile(self, values: NDArray[Any], share: float) -> NDArray[Any]:
        """Return one quantile per group, as nsys defines its quartiles; NaN for a group without values.

        It is the value after the first n * share of n sorted values. If n * share is a whole number, it is
        the mean of the values before and after that place.
        """
        ordered = self.ordered(values)
        if not len(ordered):
            return np.full(len(self._count), np.nan)
        exact = _exact(share)
        whole, rest = np.divmod(self._number * exact.numerator, exact.denominator)
        high = np.minimum(whole, self._number - 1)
        low = np.maximum(whole - (rest == 0), 0)
        before, behind = (ordered[self._begin + at] for at in (low, high))
        # The sum of two numbers of 32 bits can take more.
        mean = (before + behind.astype(np.result_type(behind, np.int64))) / 2
        return _expanded(mean, np.nan, self._filled, self._count)

    def trimmed(
        self, values: NDArray[Any], ordered: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the trimmed mean of each group, its standard error, and that of the mean of all values.

        The trimmed mean is that of the values without the lowest and the highest tenth. Values in a row
        resemble each other. So an error is that of the means of up to 16 blocks of consecutive values; of the
        trimmed mean, the values left out are replaced before by the nearest that is not. It is 0.0 for a
        single value. In a group without values, trimmed mean and error are NaN, the error of the mean is 0.0.
        Rows have to be in order of time. If known, ``ordered`` is what the method returns.
        """
        if not len(values):
            return *np.full((2, len(self._count)), np.nan), np.zeros(len(self._count))
        in_time, last = self._by_group(values), len(values) - 1
        of_mean = self._block_error(in_time)
        ordered = self._sorted(in_time.copy()) if ordered is None else ordered
        cut = self._count // _TRIMMED
        low = ordered[np.minimum(self._first + cut, last)]
        high = ordered[np.maximum(self._first + self._count - 1 - cut, 0)]
        del ordered
        for ends, limit in ((low, np.maximum), (high, np.minimum)):
            limit(in_time, np.repeat(ends, self._count), out=in_time)
        kept = np.where(self._count > 0, self._count - 2 * cut, np.nan)
        mean = (self._sums(in_time) - cut * (low + high)) / kept
        return mean, self._block_error(in_time) * self._count / kept, of_mean

    def mean_error(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the standard error of each group's mean, as ``trimmed`` does; 0.0 without values."""
        return self._block_error(self._by_group(values)) if len(values) else np.zeros(len(self._count))

    def _block_error(self, in_time: NDArray[Any]) -> NDArray[Any]:
        """Return the standard error of each group's mean; values are by group, then by time."""
        blocks = np.minimum(self._count, _BLOCKS)
        group, nth = repeated(blocks)
        starts = self._first[group] - (-nth * self._count[group] // blocks[group])
        means = np.add.reduceat(in_time, starts) / np.diff(starts, append=len(in_time))
        counted = np.maximum(blocks, 1)
        squares = (means - (np.bincount(group, means, len(blocks)) / counted)[group]) ** 2
        variance = np.bincount(group, squares, len(blocks)) / np.maximum(blocks - 1, 1)
        return np.sqrt(variance / counted)  # type: ignore[no-any-return]

    @property
    def codes(self) -> NDArray[Any]:
        """The group of each of the ``ordered`` values."""
        return np.repeat(np.arange(len(self._count)), self._count)

    def ordered(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values sorted by group, then by value."""
        if self._last is not None and self._last[0] is values:
            return self._last[1]
        self._last = None  # the memory of the values before
        ordered = self._sorted(self._by_group(values))
        self._last = values, ordered  # statistics and quantiles of one column follow each other
        return ordered

    def _sorted(self, by_group: NDArray[Any]) -> NDArray[Any]:
        """Sort values, which are by group, within the groups."""
        if len(by_group) <= len(self._filled):
            return by_group
        if len(self._all_counts) == 1 and by_group.dtype.kind == "i" and len(by_group) > PART:
            return np.sort(narrow(by_group)).astype(by_group.dtype, copy=False)
        for part in _parts(self._number):
            self._sort(by_group, self._begin[part], self._number[part])
        return by_group

    def _sort(self, by_group: NDArray[Any], begin: NDArray[Any], each: NDArray[Any]) -> None:
        """Sort the values of each of these groups, which follow each other."""
        values = by_group[begin[0] : begin[-1] + each[-1]]
        if len(each) * _LOOP_ROWS <= len(values):
            for first, behind in zip(begin.tolist(), (begin + each).tolist(), strict=True):
                by_group[first:behind].sort()
            return
        number = np.repeat(np.arange(len(each)), each)
        integers = values.dtype.kind == "i"
        width = int(values.max(initial=0)) - int(values.min(initial=0)) + 1 if integers else MOST
        if width * len(each) >= MOST:
            values[:] = values[np.lexsort((values, number))]  # takes three times as long
            return
        number *= width
        together = number + values  # one number of both, as large as the value in the first group
        together.sort()
        values[:] = together - number

    @cached_property
    def _orders(self) -> list[NDArray[Any]]:
        """The rows of each step by group. Step by step they take two bytes a row, and stay in the cache."""
        kind, size = np.uint16 if self._step <= _RADIX else np.uint32, len(self._all_counts)

        def order(rows: slice) -> NDArray[Any]:
            return order_by_code(self._codes[rows], size).astype(kind)

        return list(in_threads(order, self._steps(), _THREADS, _FEW_STEPS))

    def _by_group(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values sorted by group; those of a group stay in the order of rows."""
        counts = self._all_counts
        if len(counts) == 1:
            return values.copy()
        if len(self._orders) == 1:
            return values.take(self._orders[0])[: int(self._count.sum())]
        sorted_by = np.empty(len(values), values.dtype)

        def scatter(step: tuple[slice, NDArray[Any], NDArray[Any]]) -> None:
            rows, order, shift = step
            sorted_by[shift + np.arange(len(order))] = values[rows].take(order)

        for _ in in_threads(scatter, self._shifts(), _THREADS, _FEW_STEPS):
            pass
        return sorted_by[: int(self._count.sum())]

    def _shifts(self) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any]]]:
        """Yield the rows of each step, their order, and how far behind their places in it they belong."""
        counts = self._all_counts
        free = np.cumsum(counts) - counts  # the next place of each group
        for rows, order in zip(self._steps(), self._orders, strict=True):
            inside = np.bincount(self._codes[rows], minlength=len(counts))
            yield rows, order, np.repeat(free - np.cumsum(inside) + inside, inside)
            free += inside

    def _steps(self) -> list[slice]:
        return [slice(at, at + self._step) for at in range(0, len(self._codes), self._step)]

    def _sums(self, ordered: NDArray[Any]) -> NDArray[Any]:
        sums = np.add.reduceat(ordered, self._begin, dtype=np.result_type(ordered, np.int64))
        return _expanded(sums, 0, self._filled, self._count)

    @property
    def _first(self) -> NDArray[Any]:
        return np.cumsum(self._count) - self._count


@cache
def _exact(share: float) -> Fraction:
    """Return a share as it is written: as floats, 0.07 * 100 is not a whole number."""
    return Fraction(str(share))


def _filled(count: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any], NDArray[Any]]:
    """Return the groups that have rows, the number of rows of each, and the place of its first row."""
    filled = count.nonzero()[0]
    number = count[filled]
    return filled, number, number.cumsum() - number


def _expanded(
    figures: NDArray[Any], without: float, filled: NDArray[np.intp], count: NDArray[Any]
) -> NDArray[Any]:
    """Return a figure for each group: those of the groups that have rows, ``without`` for the others."""
    if len(filled) == len(count):
        return figures
    every = np.full(len(count), without, figures.dtype)
    every[filled] = figures
    return every


def _parts(number: NDArray[Any]) -> list[slice]:
    """Split groups, all with rows, into runs whose rows fit the CPU cache; a larger group is one run."""
    if number.sum() <= PART:
        return [slice(len(number))] if len(number) else []
    cuts = np.flatnonzero(np.diff((np.cumsum(number) - 1) // PART)) + 1
    return [slice(*ends) for ends in pairwise((0, *cuts.tolist(), len(number)))]


def check_sum(values: NDArray[Any]) -> None:
    """Raise OverflowError if 64 bits may not hold the sum of the absolute values."""
    if np.abs(values).sum(dtype=float) > MOST:
        raise OverflowError


def ascending(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values in ascending order, as np.unique does, which would import numpy.ma first."""
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) > 1 else ordered


def median(values: NDArray[Any]) -> float:
    """Return the median of numbers, none of them NaN; np.median takes 3 times as long. NaN without any."""
    if not len(values):
        return np.nan
    middle = (len(values) - 1) // 2, len(values) // 2
    ordered = np.sort(values) if len(values) <= _FEW_VALUES else np.partition(values, middle)
    low, high = (float(ordered[place]) for place in middle)
    return (low + high) / 2


def sums_before(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of the integers before each position, and of all of them behind the last one."""
    sums = np.zeros(len(values) + 1, np.uint64 if values.dtype == np.uint64 else np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


def quantiles(values: NDArray[Any], shares: Sequence[float]) -> NDArray[Any]:
    """Return linear quantiles of all values, one or more, as np.quantile does, which imports numpy.ma."""
    ordered = np.sort(values, axis=None)
    places = np.multiply(shares, len(ordered) - 1)
    return np.asarray(np.interp(places, np.arange(len(ordered)), ordered))


def distinct(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct int64 values, ascending, and the position of each row's value among them.

    The result is that of np.unique with return_inverse. Dense values, such as ids, and few distinct values
    are not sorted.
    """
    return _numbered(values, np.dtype(np.int64))


def numbered(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what ``distinct`` returns, the positions as unsigned integers of as few bytes as they take."""
    known, codes = _numbered(values)
    return known, codes.astype(np.min_scalar_type(max(len(known) - 1, 0)), copy=False)


def _numbered(values: NDArray[Any], kind: np.dtype[Any] | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return distinct values and positions of this type; without one, of any that holds them."""
    if len(values) <= 1:
        return values.astype(np.int64), np.zeros(len(values), kind or np.uint8)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.array([low]), np.zeros(len(values), kind or np.uint8)
    if low == MISSING:
        known = values != MISSING
        others, codes = distinct(values[known])
        all_codes = np.zeros(len(values), kind or np.min_scalar_type(len(others)))
        all_codes[known] = codes + 1
        return np.concatenate(([MISSING], others)), all_codes
    if high - low < _DENSE * len(values):
        present = np.zeros(high - low + 1, dtype=bool)
        parts = [slice(first, first + PART) for first in range(0, len(values), PART)]
        for part in parts:
            present[(values[part] - low).astype(np.intp, copy=False)] = True  # others take half again as long
        number = None
        if not present.all():
            number = present.cumsum(dtype=np.min_scalar_type(len(present)))  # new memory takes longest
            number -= 1
        codes = np.empty(len(values), kind or np.min_scalar_type(len(present)))
        for part in parts:
            place = values[part] - low
            codes[part] = place if number is None else number.take(place)
        return present.nonzero()[0] + low, codes
    return _few(values, kind or np.dtype(np.uint8)) or np.unique(values, return_inverse=True)


def _few(values: NDArray[Any], kind: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Number a handful of distinct values, such as process ids; None if there are more."""
    known = ascending(values[:_FIRST])

    def compared(block: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        codes = np.zeros(len(block[""]), kind)
        for value in known[1:]:
            codes += block[""] >= value
        return {"codes": codes, "others": known[codes] != block[""]}

    while len(known) <= _HANDFUL:
        codes, others = in_blocks({"": values}, compared).values()
        if not others.any():
            return known, codes
        known = ascending(np.append(known, values[others][:_FIRST]))
    return None


def group_keys(*keys: NDArray[Any]) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Number the distinct rows of the key columns in ascending order.

    Returns one code per row, and the key columns with one entry per code.
    """
    if len(keys[0]) <= 1:
        return np.zeros(len(keys[0]), np.int64), [key.astype(np.int64) for key in keys]
    if len(keys[0]) > BLOCK_ROWS and (few := _few_keys(*keys)):
        return few
    values, codes = distinct(keys[0])
    columns = [values]
    for key in keys[1:]:
        same = np.empty(len(columns[0]), np.int64)
        same[codes] = key
        if (same.take(codes) == key).all():  # one value for each code, such as a kernel's registers
            columns.append(same)
            continue
        values, inner = distinct(key)
        pairs, codes = distinct(codes * len(values) + inner)  # below the square of the rows: no overflow
        columns = [*(column[pairs // len(values)] for column in columns), values[pairs % len(values)]]
    return codes, columns


def _few_keys(*keys: NDArray[Any]) -> tuple[NDArray[Any], list[NDArray[Any]]] | None:
    """Number distinct rows block by block, which needs no further array of all rows.

    None if a block has more than a handful of them.
    """
    codes, numbers = np.empty(len(keys[0]), np.int64), dict[tuple[int, ...], int]()
    blocks = [slice(first, first + BLOCK_ROWS) for first in range(0, len(codes), BLOCK_ROWS)]
    for block in blocks:
        inside, columns = group_keys(*(key[block] for key in keys))
        if len(columns[0]) > _HANDFUL:
            return None
        rows = zip(*(column.tolist() for column in columns), strict=True)
        codes[block] = np.array([numbers.setdefault(row, len(numbers)) for row in rows])[inside]
    ordered = sorted(numbers)
    rank = np.empty(len(ordered), np.int64)
    rank[[numbers[row] for row in ordered]] = np.arange(len(ordered))
    for block in blocks:
        codes[block] = rank[codes[block]]
    return codes, list(np.array(ordered).T)


def text_codes(ids: NDArray[Any], text: Callable[[int], str | None]) -> tuple[NDArray[Any], list[str | None]]:
    """Return one code per id and the sorted texts; ``text`` is called once for each distinct id."""
    known, positions = distinct(ids)
    return rank_texts(positions, [text(i) for i in known.tolist()])


def number_texts(ids: NDArray[Any], texts: Sequence[str | None]) -> tuple[NDArray[Any], list[str | None]]:
    """Return one code per id and the sorted texts, None first; several ids can have the same text.

    ``texts[i]`` is the text of the i-th distinct id in ascending order.
    """
    return rank_texts(numbered(ids)[1], texts)


def rank_texts(positions: NDArray[Any], texts: Sequence[str | None]) -> tuple[NDArray[Any], list[str | None]]:
    """Return one code per position and the sorted texts, None first; several ``texts`` can be equal."""
    known = {text for text in texts if text is not None}
    ordered = [*([None] if len(known) < len(set(texts)) else []), *sorted(known)]
    rank = {text: code for code, text in enumerate(ordered)}
    ranks = np.fromiter((rank[text] for text in texts), np.int64, len(texts))
    return looked_up(ranks, positions) if len(positions) else np.empty(0, np.int64), ordered


def rows_by(*keys: NDArray[Any]) -> dict[tuple[int, ...], NDArray[np.intp]]:
    """Return the rows of each distinct row of the key columns, in ascending order."""
    codes, columns = group_keys(*keys)
    distinct_keys = list(zip(*(column.tolist() for column in columns), strict=True))
    rows = np.split(order_by_code(codes, len(distinct_keys)), np.cumsum(np.bincount(codes))[:-1])
    return dict(zip(distinct_keys, rows, strict=False))  # without rows, np.split gives one part


def repeated(times: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each position as often as ``times`` says, and which of its repeats each one is."""
    again = np.repeat(np.arange(len(times)), times)
    return again, np.arange(len(again)) - np.repeat(np.cumsum(times) - times, times)


def check_pairs(pairs: int, rows: int, subject: str, source: object = "") -> None:
    """Raise NotInCapture if so few rows make so many pairs that memory could not hold the pairs."""
    if pairs > _MOST_PAIRS + _PAIRS_PER_ROW * rows:
        raise NotInCapture(
            f"{subject}: {pairs:,} pairs of {rows:,} events are too many",
            "select a part of the capture with --time, --device or --process",
            source=source,
        )
