"""Read only the selected rows of a large table: a time window takes little of a long capture.

Which rows are selected is decided block by block, from the few columns that this needs. All other columns are
read from the pages that hold selected rows. Damage elsewhere in the file is then not found.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.errors import DamagedCapture
from nsyswrap.capture.sqlite_pages import Leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.export import Export
    from nsyswrap.capture.schema import FieldKind

    Columns = dict[str, NDArray[Any]]
    Wanted = Sequence[tuple[str, FieldKind]]

_BLOCK_ROWS = 1 << 19  # at a time, so that deciding takes little memory
_MOST = 0.5  # of a table's pages, from which on all are read and kept for other views


def selected_rows(
    export: Export, table: str, wanted: Wanted, mark: Callable[[Columns], NDArray[Any]]
) -> NDArray[Any]:
    """Return the numbers of the rows that ``mark`` selects, from 0. It gets blocks of columns by name."""
    leaves = None if _is_read(export, table, wanted) else export.leaves(table)
    marks = []
    for block in _blocks(leaves) if leaves else ():
        columns = _from_leaves(export, table, wanted, block)
        if columns is None:  # SQLite has to read the table
            leaves = None
            break
        marks.append(mark(columns))
    if leaves is None:
        names = [name for name, _ in wanted]
        marks = [mark(dict(zip(names, export.columns(table, wanted), strict=True)))]
    return np.flatnonzero(np.concatenate(marks))


def part_of(export: Export, table: str, wanted: Wanted, rows: NDArray[Any]) -> list[NDArray[Any]]:
    """Return columns at these rows, which ascend. Texts are read completely."""
    numbers = [item for item in wanted if item[1] != "text"]
    part = _numbers_of(export, table, numbers, rows) or {}
    rest = [item for item in wanted if item[0] not in part]
    for (name, _), values in zip(rest, export.columns(table, rest), strict=True):
        part[name] = values[rows]
    return [part[name] for name, _ in wanted]


def _numbers_of(export: Export, table: str, wanted: Wanted, rows: NDArray[Any]) -> Columns | None:
    """Return columns from the pages that hold these rows; None if all of the table is to be read."""
    leaves = None if _is_read(export, table, wanted) else export.leaves(table)
    if leaves is None:
        return None
    ends = np.cumsum(leaves.rows)
    used, of_row = np.unique(np.searchsorted(ends, rows, "right"), return_inverse=True)
    if len(used) > _MOST * len(ends):
        return None
    if not len(rows):
        return {name: np.empty(0, np.int64) for name, _ in wanted}
    some = Leaves(leaves.numbers[used], leaves.rows[used])
    columns = _from_leaves(export, table, wanted, some)
    if columns is None:
        return None
    moved = (np.cumsum(some.rows) - some.rows) - (ends[used] - some.rows)  # of the rows of each page
    return {name: values[rows + moved[of_row]] for name, values in columns.items()}


def _blocks(leaves: Leaves) -> Iterator[Leaves]:
    """Yield leaf pages with about _BLOCK_ROWS rows together."""
    number = np.cumsum(leaves.rows) // _BLOCK_ROWS
    edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
    for first, end in pairwise(edges):
        yield Leaves(leaves.numbers[first:end], leaves.rows[first:end])


def _from_leaves(export: Export, table: str, wanted: Wanted, leaves: Leaves) -> Columns | None:
    try:
        return export.from_leaves(table, wanted, leaves)
    except DamagedCapture:
        export.columns(table, wanted)  # names the row
        raise


def _is_read(export: Export, table: str, wanted: Wanted) -> bool:
    return all(export.has_read(table, name) for name, _ in wanted)
