"""Read only the selected rows of a large table: a time window takes little of a long capture.

Which rows are selected is decided block by block, from the few columns that this needs. For a window,
only the times of all rows are read, once for each file, and the other columns where a block has a row in
it. What is selected is read from the pages that hold it. Damage elsewhere in the file is then not found.

Rows can lie in any order and last for any time, so the times of all rows are read. That takes most of the
time of a window, therefore the first and the last time in each block are stored: see ``stored_times``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import DamagedCapture
from nsyswrap.capture.schema import SPANS
from nsyswrap.capture.selection import select
from nsyswrap.capture.sqlite_pages import Leaves
from nsyswrap.capture.stream import BlockTimes, block_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from nsyswrap.capture.export import Export
    from nsyswrap.capture.intervals import Window
    from nsyswrap.capture.schema import FieldKind, Wanted
    from nsyswrap.capture.selection import Selection
    from nsyswrap.capture.stream import Columns

    Source = tuple[str, FieldKind] | None

OWNERS = ("global_tid", "global_pid")

_BLOCK_ROWS = 1 << 19  # at a time, so that deciding takes little memory
_FIRST_BLOCKS, _MOST_BLOCKS = 4, 64  # that are read at once when something is looked for
_MOST = 0.5  # of a table's pages, from which on all are read and kept for other views
_KNOWN: WeakKeyDictionary[Export, dict[str, BlockTimes]] = (
    WeakKeyDictionary()
)  # the times of blocks, for all windows


def selected_rows(
    export: Export, table: str, sources: Mapping[str, Source], selection: Selection, window: Window
) -> NDArray[Any] | None:
    """Return the numbers of the selected rows, from 0; None if all rows have to be looked at together.

    ``sources`` has the column of each field that the selection compares, None for one that the table lacks.
    """
    wanted = [source for source in sources.values() if source]
    if _is_read(export, table, wanted) or export.leaves(table) is None:
        return None
    times = [sources.get(field) for field in SPANS]
    timed = selection.windowed and all(time and time[1] == "time" for time in times)
    spans = _block_times(export, table, times) if timed else None  # type: ignore[arg-type]
    leaves = export.leaves(table)  # counted again, or None, if that found damage
    if leaves is None:
        return None
    crossing = np.ones(len(leaves.rows), bool) if spans is None else _crossing(leaves, spans, window)
    selected = [np.empty(0, np.int64)]
    owned: set[bool] = set()
    for first, block in _blocks(leaves, crossing):
        read = _from_leaves(export, table, wanted, block)
        if read is None:  # SQLite has to read the table
            return None
        empty = np.full(block.rows.sum(), MISSING)
        columns = {field: read[source[0]] if source else empty for field, source in sources.items()}
        owned.update(bool((columns[field] != MISSING).any()) for field in OWNERS if sources.get(field))
        selected.append(np.flatnonzero(select(columns, selection, window)) + first)
    if len(owned) > 1 or (owned == {False} and not crossing.all()):
        return None  # the rule is another one if no row of the table has an owner
    return np.concatenate(selected)


def _block_times(export: Export, table: str, times: Wanted) -> BlockTimes:
    """Return the times of all blocks of a table; ``times`` are its columns of start and end."""
    known = _KNOWN.setdefault(export, {})
    if table not in known:
        known[table] = export.stored(table).times() or _computed(export, table, times)
    return known[table]


def rows_beyond(export: Export, table: str, time_ns: int, *, later: bool) -> Iterator[NDArray[Any]]:
    """Yield the numbers of the rows of blocks that begin before a time, more and more, the last blocks first.

    If ``later``, of blocks that end after it, the first blocks first. Rows count from 0.
    """
    times = _KNOWN.get(export, {}).get(table)
    if times is None:  # nothing was left out for its time
        count = export.count(table)
        for first in range(0, count, _BLOCK_ROWS):
            yield np.arange(first, min(first + _BLOCK_ROWS, count))
        return
    marks, order = (times.last > time_ns, times.first) if later else (times.first < time_ns, -times.last)
    ends, blocks = np.cumsum(times.rows), np.flatnonzero(marks)
    blocks, count = blocks[np.argsort(order[blocks], kind="stable")], _FIRST_BLOCKS
    while len(blocks):
        some, blocks = np.sort(blocks[:count]), blocks[count:]
        yield np.concatenate([np.arange(ends[one] - times.rows[one], ends[one]) for one in some.tolist()])
        count = min(2 * count, _MOST_BLOCKS)


def _computed(export: Export, table: str, times: Wanted) -> BlockTimes:
    _, noted = export.stream_noted(table, times, lambda _: {})
    return (noted and noted.times()) or block_times(*export.columns(table, times))


def _crossing(leaves: Leaves, spans: BlockTimes, window: Window) -> NDArray[np.bool_]:
    """Mark the leaf pages of blocks that can have a row in the window."""
    marks = window.crossing(spans.first, spans.last)
    block_ends, ends = np.cumsum(spans.rows), np.cumsum(leaves.rows)
    begins = np.searchsorted(block_ends, ends - leaves.rows, "right")
    return marks[begins] | marks[np.searchsorted(block_ends, ends)]


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


def _blocks(leaves: Leaves, marks: NDArray[np.bool_]) -> Iterator[tuple[int, Leaves]]:
    """Yield marked leaf pages, up to about _BLOCK_ROWS rows, and the number of the first row."""
    ends = np.cumsum(leaves.rows)
    number = np.where(marks, ends // _BLOCK_ROWS, -1)
    edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
    for first, end in pairwise(edges):
        if marks[first]:
            yield (
                int(ends[first] - leaves.rows[first]),
                Leaves(leaves.numbers[first:end], leaves.rows[first:end]),
            )


def _from_leaves(export: Export, table: str, wanted: Wanted, leaves: Leaves) -> Columns | None:
    try:
        return export.from_leaves(table, wanted, leaves)
    except DamagedCapture:
        export.columns(table, wanted)  # names the row
        raise


def _is_read(export: Export, table: str, wanted: Wanted) -> bool:
    return all(export.has_read(table, name) for name, _ in wanted)
