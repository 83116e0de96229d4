"""Lines of delimited cells, as CSV and TSV have them.

A trace has millions of cells. They are written in blocks of rows and column by column: in each column a cell
takes the same number of bytes, filled with blanks, which are removed from the whole block at once. Long texts
are put in afterwards: each is one object, whatever the number of rows that have it.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.texts import Texts
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import TimeUnit, Unit, csv_cell, csv_decimals, csv_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from nsyswrap.reports.table import Column, Table, Values

    Cells = NDArray[np.uint8] | Sequence[bytes]  # as many bytes in each row, or texts of any length

_ROWS = 2**14  # of a block
_BLANK, _LONG = b"\0", b"\1"  # bytes of a block that are removed, and that long texts replace
_SHORT = 32  # bytes of the longest text in a column of short texts
_GROUP, _GROUP_DIGITS = 10_000, 4  # digits are written in groups
_EXACT = 2**50  # below this, dividing by a power of ten and rounding to decimals is exact but for ties
# A spreadsheet runs a cell that begins like this as a formula; some skip blanks before it.
_FORMULA = re.compile(r"[\t\r\n]|\s*[=+\-@＝＋－＠]")  # noqa: RUF001 - full-width signs count too


def blocks(table: Table, delimiter: str, time_unit: TimeUnit, *, safe: bool) -> Iterator[bytes]:
    """Yield header and rows as UTF-8. Cells with a delimiter, a quote or a line break are quoted.

    ``safe`` puts a single quote before texts that a spreadsheet would run as a formula.
    """
    special = re.compile(f'[{delimiter}"\r\n]')
    plain = partial(_encoded, special, safe=False)
    yield delimiter.encode().join(map(plain, _header(table, time_unit))) + b"\n"
    texts = partial(_encoded, special, safe=safe)
    writers = [_writer(table, column, time_unit, texts) for column in table.columns]
    for first in range(0, len(table), _ROWS):
        rows = slice(first, min(first + _ROWS, len(table)))
        yield _lines([writer(rows) for writer in writers], delimiter.encode(), rows.stop - rows.start)


def _header(table: Table, time_unit: TimeUnit) -> list[str]:
    if table.schema.layer == "analysis":
        return [column.name for column in table.columns]
    return [column.header + csv_label(column.unit, time_unit) for column in table.columns]


def _encoded(special: re.Pattern[str], text: str | None, *, safe: bool) -> bytes:
    if not text:
        return b""
    if safe and _FORMULA.match(text):
        text = f"'{text}"
    if special.search(text):
        text = '"' + text.replace('"', '""') + '"'
    return text.encode("utf-8", "surrogateescape")


def _lines(columns: Sequence[Cells], delimiter: bytes, rows: int) -> bytes:
    """Return the lines of a block."""
    ends = [delimiter] * (len(columns) - 1) + [b"\n"]
    parts: list[NDArray[np.uint8]] = []
    long: list[Sequence[bytes]] = []
    for cells, end in zip(columns, ends, strict=True):
        if isinstance(cells, np.ndarray):
            parts.append(cells)
        else:
            long.append(cells)
            end = _LONG + end  # noqa: PLW2901 - the place of the text is before the end
        parts.append(np.frombuffer(end, np.uint8))
    block = np.empty((rows, sum(part.shape[-1] for part in parts)), np.uint8)
    place = 0
    for part in parts:
        block[:, place : place + part.shape[-1]] = part
        place += part.shape[-1]
    written = block.tobytes().translate(None, _BLANK)
    return _with_long_texts(written, long) if long else written


def _with_long_texts(written: bytes, columns: Sequence[Sequence[bytes]]) -> bytes:
    between = written.split(_LONG)
    pieces = [b""] * (2 * len(between) - 1)
    pieces[::2] = between
    for number, texts in enumerate(columns):
        pieces[2 * number + 1 :: 2 * len(columns)] = texts
    return b"".join(pieces)


def _writer(
    table: Table, column: Column, time_unit: TimeUnit, encoded: Callable[[str | None], bytes]
) -> Callable[[slice], Cells]:
    """Return a function that writes the cells of these rows of a column."""
    values, unit = table.data[column.name], column.unit
    rounds = table.schema.layer == "parity"
    if unit is Unit.TEXT:
        return _texts(values, encoded)
    if isinstance(values, np.ndarray) and values.dtype == np.int64:
        divisor, decimals = csv_decimals(unit, time_unit) if rounds else (1, 0)
        if not rounds or unit is not Unit.ADDRESS:
            exact = partial(csv_cell, unit=unit, rounding=table.rounding, time_unit=time_unit)
            return lambda rows: _whole_numbers(values[rows], divisor, decimals, exact)

    def cells(rows: slice) -> list[bytes]:
        part = table.plain(column, rows)
        if not rounds:
            return [b"" if value is None else str(value).encode() for value in part]
        return [csv_cell(value, unit, table.rounding, time_unit).encode() for value in part]

    return cells


def _texts(values: Values, encoded: Callable[[str | None], bytes]) -> Callable[[slice], Cells]:
    if not isinstance(values, Texts):
        return lambda rows: [encoded(text) for text in values[rows]]
    codes, texts = values.codes, [encoded(text) for text in values.texts]
    if any(len(text) > _SHORT or _BLANK in text or _LONG in text for text in texts):
        return lambda rows: [texts[code] for code in codes[rows].tolist()]
    width = max(map(len, texts), default=0)
    table = np.array(texts or [b""], f"S{max(width, 1)}").view(np.uint8).reshape(-1, max(width, 1))
    return lambda rows: table.take(codes[rows], axis=0)


def _whole_numbers(
    values: NDArray[Any], divisor: int, decimals: int, exact: Callable[[int], str]
) -> NDArray[np.uint8]:
    """Return each value as ``value / divisor`` and the last ``decimals`` digits of that behind a point.

    Where rounding is a matter of floating point, ``exact`` returns the cell.
    """
    missing = values == MISSING
    some_missing, some_negative = bool(missing.any()), bool((values < 0).any())
    size = np.abs(values) if some_negative else values
    if some_missing:
        size = np.where(missing, 0, size)
    if decimals:
        size = _rounded(size, divisor, exact)
    whole, part = np.divmod(size, 10**decimals) if decimals else (size, size)
    cells = _digits(whole)
    if decimals:
        padded = _groups()[part].view(np.uint8).reshape(-1, _GROUP_DIGITS)
        point = np.full((len(size), 1), ord("."), np.uint8)
        cells = np.hstack((cells, point, padded[:, _GROUP_DIGITS - decimals :]))
    if some_negative and (values[~missing] < 0).any():
        cells = np.hstack((np.where(values < 0, ord("-"), 0).astype(np.uint8)[:, None], cells))
    if some_missing:
        cells[missing] = 0
    return cells


def _rounded(size: NDArray[Any], divisor: int, exact: Callable[[int], str]) -> NDArray[Any]:
    whole, rest = np.divmod(size, divisor)
    rounded = whole + (2 * rest > divisor)
    unclear = (2 * rest == divisor) | (size >= _EXACT)
    if unclear.any():
        known, places = np.unique(size[unclear], return_inverse=True)
        rounded[unclear] = np.array([int(exact(one).replace(".", "")) for one in known.tolist()])[places]
    return rounded


def _digits(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the digits of values that are not negative, with blanks before them."""
    most = int(values.max())
    number = -(-len(str(most)) // _GROUP_DIGITS)
    rest = values.astype(np.uint32) if most < 2**32 else values
    written = np.empty((len(values), number), np.uint32)
    for group in reversed(range(number)):
        higher = rest // _GROUP
        digits = (rest - higher * _GROUP).astype(np.intp)
        leads = 2 if group == number - 1 else 1
        written[:, group] = _groups()[digits + np.where(higher == 0, leads * _GROUP, 0)]
        rest = higher
    return written.view(np.uint8).reshape(len(values), -1)[:, -len(str(most)) :]


@cache
def _groups() -> NDArray[np.uint32]:
    """Return four digits as one number: with zeros before them, with blanks, and with blanks but 0 as 0."""
    numbers, places = np.arange(_GROUP)[:, None], [1000, 100, 10, 1]
    zeros = (numbers // places % 10 + ord("0")).astype(np.uint8)
    blanks = np.where(numbers < places, 0, zeros).astype(np.uint8)
    last = blanks.copy()
    last[0, -1] = ord("0")
    return np.concatenate((zeros, blanks, last)).view(np.uint32).ravel()
