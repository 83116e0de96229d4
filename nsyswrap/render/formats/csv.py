"""nsys' CSV: the same headers, order, rounding and quoting as ``nsys stats --format csv``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import TextColumn
from nsyswrap.base.constants import MISSING
from nsyswrap.base.text import printable, without_commands
from nsyswrap.base.units import EXACT_TENTHS, NEAR_TIE, TIE, TimeUnit, Unit, csv_cell, csv_decimals, csv_label
from nsyswrap.render.formats import Document, Format, Layout
from nsyswrap.reports.table import Column, Table, Values

if TYPE_CHECKING:
    Cells = NDArray[np.uint8] | Sequence[bytes]
    Encode = Callable[[str | None], bytes]
    Style = tuple[tuple[int, int], Callable[[Any], str], bool]


_ROWS = 2**14  # of a block
_BLANK, _LONG = b"\0", b"%b"  # of a block: bytes that are removed, and where a long text comes in
_SHORT = 32  # bytes of the longest text in a column of short texts
_CLOSE, _REPEATS = 2**18, 4  # within such a range, a value that rows have so often on average is written once
_GROUP, _GROUP_DIGITS = 10_000, 4  # digits are written in groups
_EXACT = 2**50  # below this, dividing by a power of ten and rounding to decimals is exact but for ties
# A spreadsheet runs a cell that begins like this as a formula, GitHub as a command; some skip blanks before.
_ACTIVE = re.compile(r"\s*(?:[=+\-@＝＋－＠]|::)")  # noqa: RUF001 - full-width signs count too


# Lines of delimited cells, as CSV and TSV have them.
#
# A trace has millions of cells. They are written in blocks of rows and column by column: in each column a
# cell takes the same number of bytes, filled with blanks, which are removed from the whole block at once.
# Long texts are put in afterwards: each is one object, whatever the number of rows that have it.
#
# Two rows of a block, with _ for a blank, and the bytes that are written of them::
#
#     ______1,240,%b      1,240,void gemm<float>(float*)
#     1234567,___,%b      1234567,,axpy
#
# A writer takes a slice of rows and returns a matrix (rows, width), one row of it for all rows, or a list of
# texts. Digits are written four at a time, from a table of 30,000 groups. Where numpy could round otherwise
# than the function of a cell, near a tie or above `_EXACT`, that function decides.


def blocks(table: Table, delimiter: str, time_unit: TimeUnit, *, safe: bool) -> Iterator[bytes]:
    """Yield header and rows as UTF-8. Cells with a delimiter, a quote or a line break are quoted.

    ``safe`` guards texts as ``guarded`` does.
    """
    special = re.compile(f'[{delimiter}"\r\n]')
    texts = partial(_encoded, special, safe=safe)
    yield delimiter.encode().join(map(texts, _header(table, time_unit))) + b"\n"
    ends = [delimiter.encode()] * (len(table.columns) - 1) + [b"\n"]
    yield from rows_in_blocks(
        table, [b"", *ends], lambda column: _cell_style(table, column, time_unit), texts, b""
    )


def rows_in_blocks(
    table: Table, between: Sequence[bytes], style: Callable[[Column], Style], encoded: Encode, missing: bytes
) -> Iterator[bytes]:
    """Yield the rows as ``between`` lays them out: what is before, between and after their cells.

    ``style`` returns how the numbers of a column are written: the decimals as csv_decimals, a function, and
    if it writes floats with one decimal. ``missing`` stands for a missing number.
    """
    writers = [
        _writer(table, column, style(column), encoded, missing) for column in table.columns if len(table)
    ]
    for first in range(0, len(table), _ROWS):
        rows = slice(first, min(first + _ROWS, len(table)))
        yield _lines([writer(rows) for writer in writers], between, rows.stop - rows.start)


def _cell_style(table: Table, column: Column, time_unit: TimeUnit) -> Style:
    if table.schema.layer == "analysis":
        return (1, 0), str, False  # nsyswrap's own reports are not rounded
    cell = partial(csv_cell, unit=column.unit, rounding=table.rounding, time_unit=time_unit)
    decimals = csv_decimals(column.unit, time_unit)
    return decimals, cell, decimals == (1, 0)


def _header(table: Table, time_unit: TimeUnit) -> list[str]:
    if table.schema.layer == "analysis":
        return [column.name for column in table.columns]
    return [column.header + csv_label(column.unit, time_unit) for column in table.columns]


def _encoded(special: re.Pattern[str], text: str | None, *, safe: bool) -> bytes:
    if not text:
        return b""
    if safe:
        text = guarded(text)
    return quoted(special, text).encode("utf-8", "surrogateescape")


def guarded(text: str) -> str:
    """Return the text of a cell that does nothing where it is opened or printed.

    Control characters and line breaks are written as escapes, and so is what is a command for GitHub's runner
    anywhere in a line. A single quote stands before what a spreadsheet would run as a formula.
    """
    text = printable(text)
    if _ACTIVE.match(text):
        text = f"'{text}"
    return without_commands(text)


def quoted(special: re.Pattern[str], text: str) -> str:
    """Return the text of a cell, in quotes if it has ``special`` characters."""
    return '"' + text.replace('"', '""') + '"' if special.search(text) else text


def _lines(columns: Sequence[Cells], between: Sequence[bytes], rows: int) -> bytes:
    long = [cells for cells in columns if not isinstance(cells, np.ndarray)]
    start, *ends = [text.replace(b"%", b"%%") for text in between] if long else between
    parts = [np.frombuffer(start, np.uint8)]
    for cells, end in zip(columns, ends, strict=True):
        if isinstance(cells, np.ndarray):
            parts += [cells, np.frombuffer(end, np.uint8)]
        else:
            parts.append(np.frombuffer(_LONG + end, np.uint8))
    block = np.empty((rows, sum(part.shape[-1] for part in parts)), np.uint8)
    block[:] = np.concatenate([part if part.ndim == 1 else np.empty_like(part[0]) for part in parts])
    place = 0
    for part in parts:
        size = part.shape[-1]
        if part.ndim > 1:  # as items of so many bytes, which numpy copies in half the time of rows of bytes
            cells = np.ndarray(rows, f"V{size}", block, place, block.strides[:1])
            cells[:] = part.view(cells.dtype)[:, 0]
        place += size
    written = block.tobytes().translate(None, _BLANK)
    if len(long) > 1:
        return written % tuple(chain.from_iterable(zip(*long, strict=True)))
    return written % tuple(long[0]) if long else written


def _writer(
    table: Table, column: Column, style: Style, encoded: Encode, missing: bytes
) -> Callable[[slice], Cells]:
    """Return a function that writes the cells of these rows of a column."""
    values, unit = table.data[column.name], column.unit
    if unit is Unit.TEXT:
        return _texts(values, encoded)
    decimals, cell, has_tenths = style
    if isinstance(values, np.ndarray) and values.dtype == np.float64 and has_tenths:
        return lambda rows: _tenth_cells(values[rows], cell, missing)
    if isinstance(values, np.ndarray) and values.dtype == np.int64 and unit is not Unit.ADDRESS:
        written = partial(_number_cells, decimals=decimals, cell=cell)
        return _whole_numbers(values, written, np.frombuffer(missing, np.uint8))
    return lambda rows: [missing if one is None else cell(one).encode() for one in table.plain(column, rows)]


def _texts(values: Values, encoded: Encode) -> Callable[[slice], Cells]:
    if not isinstance(values, TextColumn):
        return lambda rows: [encoded(text) for text in values[rows]]
    codes, texts = values.codes, [encoded(text) for text in values.texts]
    if any(len(text) > _SHORT or _BLANK in text or b"%" in text for text in texts):
        known = np.array(texts, object)
        return lambda rows: known[codes[rows]].tolist()
    cells = np.array(texts, "S").view(np.uint8).reshape(len(texts), -1)
    return lambda rows: cells.take(codes[rows], axis=0)


def _whole_numbers(
    values: NDArray[Any], written: Callable[[NDArray[Any]], NDArray[np.uint8]], missing: NDArray[np.uint8]
) -> Callable[[slice], Cells]:
    """Return a function that writes these rows. If the values lie close together, each is written once."""
    known = values[values != MISSING] if values.min(initial=0) == MISSING else values
    if not len(known):
        return lambda _: missing
    least, most = int(known.min()), int(known.max())
    if least == most and known is values:
        return lambda _: written(values[:1])[0]
    if most - least >= min(_CLOSE, len(values) // _REPEATS):
        return lambda rows: _where_known(values[rows], written, missing)
    cells = written(np.arange(least, most + 1))
    if known is values:
        return lambda rows: cells.take(values[rows] - least, axis=0)
    cells = _with_rows(cells, np.arange(len(cells)), len(cells) + 1, missing)
    return lambda rows: cells.take(np.where(values[rows] == MISSING, -1, values[rows] - least), axis=0)


def _where_known(
    values: NDArray[Any], written: Callable[[NDArray[Any]], NDArray[np.uint8]], missing: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    if values.min() != MISSING:
        return written(values)
    rows = np.flatnonzero(values != MISSING)
    return _with_rows(written(values[rows]), rows, len(values), missing) if len(rows) else missing


def _with_rows(
    known: NDArray[np.uint8], rows: NDArray[np.intp], number: int, missing: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return ``number`` rows of cells: those ``known`` of these rows, and ``missing`` in the others."""
    cells = np.zeros((number, max(known.shape[1], len(missing))), np.uint8)
    cells[:, : len(missing)] = missing
    cells[rows] = 0
    cells[rows, : known.shape[1]] = known
    return cells


def _number_cells(
    values: NDArray[Any], decimals: tuple[int, int], cell: Callable[[int], str]
) -> NDArray[np.uint8]:
    """Return a row of bytes for each value, with blanks before it; ``decimals`` are those of csv_decimals."""
    divisor, places = decimals
    negative = values < 0
    size = np.abs(values) if negative.any() else values
    if places:
        size = _rounded(size, divisor, cell)
        whole = size // 10**places
        part = _digit_groups()[size - whole * 10**places].view(np.uint8).reshape(-1, _GROUP_DIGITS)
        point = np.full((len(size), 1), ord("."), np.uint8)
        cells = np.hstack((_digits(whole), point, part[:, _GROUP_DIGITS - places :]))
    else:
        cells = _digits(size)
    if size is values or not negative.any():
        return cells
    return np.hstack((np.where(negative, ord("-"), 0).astype(np.uint8)[:, None], cells))


def _tenth_cells(values: NDArray[Any], cell: Callable[[float], str], missing: bytes) -> Cells:
    """Return a row of bytes for each value, rounded to tenths; ``cell`` writes those near a tie."""
    tenths = np.abs(values) * 10
    if tenths.max(initial=0, where=~np.isnan(tenths)) >= EXACT_TENTHS:
        return [missing if np.isnan(value) else cell(value).encode() for value in values.tolist()]
    rows = np.flatnonzero(~np.isnan(tenths))
    known = values[rows]
    if not len(rows):
        return np.frombuffer(missing, np.uint8)
    tenths = tenths[rows]
    whole = np.floor(tenths)
    rounded = (whole + (tenths - whole > TIE)).astype(np.int64)
    for row in np.flatnonzero(np.abs(tenths - whole - TIE) <= NEAR_TIE).tolist():
        rounded[row] = int(cell(abs(float(known[row]))).replace(".", ""))
    sign = np.where(np.signbit(known), ord("-"), 0).astype(np.uint8)[:, None]
    point = np.full((len(rows), 1), ord("."), np.uint8)
    cells = np.hstack((sign, _digits(rounded // 10), point, _digits(rounded % 10)))
    if len(rows) == len(values):
        return cells
    return _with_rows(cells, rows, len(values), np.frombuffer(missing, np.uint8))


def _rounded(size: NDArray[Any], divisor: int, cell: Callable[[int], str]) -> NDArray[Any]:
    """Divide and round as floating point does: where that decides, the figure is that of the cell."""
    whole = size // divisor
    rest = size - whole * divisor
    rounded: NDArray[Any] = whole + (2 * rest > divisor)
    unclear = (2 * rest == divisor) | (size >= _EXACT)
    if unclear.any():
        known, places = np.unique(size[unclear], return_inverse=True)
        rounded[unclear] = np.array([int(cell(one).replace(".", "")) for one in known.tolist()])[places]
    return rounded


def _digits(values: NDArray[Any]) -> NDArray[np.uint8]:
    width = len(str(int(values.max())))
    number = -(-width // _GROUP_DIGITS)
    rest = values.astype(np.uint32) if width < len(str(2**32)) else values
    written = np.empty((len(values), number), np.uint32)
    for group in reversed(range(number)):
        higher = rest // _GROUP
        digits = rest - higher * _GROUP
        zeros, blanks = 0, (2 if group == number - 1 else 1) * _GROUP
        if not group or not higher.all():
            digits = digits + (np.where(higher == 0, blanks, zeros) if group else blanks)
        written[:, group] = _digit_groups().take(digits)
        rest = higher
    return written.view(np.uint8).reshape(len(values), -1)[:, -width:]


@cache
def _digit_groups() -> NDArray[np.uint32]:
    """Return four digits as one number: with zeros before them, with blanks, and with blanks but 0 as 0."""
    numbers, places = np.arange(_GROUP)[:, None], [1000, 100, 10, 1]
    zeros = (numbers // places % 10 + ord("0")).astype(np.uint8)
    blanks = np.where(numbers < places, 0, zeros).astype(np.uint8)
    last = blanks.copy()
    last[0, -1] = ord("0")
    return np.concatenate((zeros, blanks, last)).view(np.uint32).ravel()


def render(
    tables: Iterable[Table],
    *,
    time_unit: TimeUnit = "ns",
    safe: bool = False,
    delimiter: str = ",",
    ending: str = "csv",
) -> dict[str, str]:
    """Return ``{<report>.<ending>: text}``. Values of nsyswrap's own reports are not rounded.

    ``safe`` guards texts that a spreadsheet would run as formulas, a terminal or GitHub as commands.
    """
    return {f"{table.label}.{ending}": delimited(table, delimiter, time_unit, safe=safe) for table in tables}


def delimited(table: Table, delimiter: str, time_unit: TimeUnit, *, safe: bool) -> str:
    """Return header and rows; cells with a delimiter, a quote or a line break are quoted."""
    return b"".join(blocks(table, delimiter, time_unit, safe=safe)).decode("utf-8", "surrogateescape")


def in_blocks(document: Document, layout: Layout, delimiter: str, ending: str) -> dict[str, Iterator[bytes]]:
    """Return ``{<report>.<ending>: content}``, each content in blocks."""
    return {
        f"{table.label}.{ending}": blocks(table, delimiter, layout.time_unit, safe=layout.csv_safe)
        for table in document.tables
    }


FORMAT = Format(partial(in_blocks, delimiter=",", ending="csv"), one_table=True)
