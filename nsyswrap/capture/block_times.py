"""The first and the last time in each block of a large table, which tell where a window can have rows.

Rows can lie in any order and last for any time, so all of them are read for it. That takes most of the time
of a window, therefore the times are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from nsyswrap.capture.stored_times import BlockTimes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.export import Export
    from nsyswrap.capture.stored_times import Wanted

    Columns = dict[str, NDArray[Any]]

_KNOWN: WeakKeyDictionary[Export, dict[str, BlockTimes]] = WeakKeyDictionary()  # for all windows


def block_times(export: Export, table: str, times: Wanted) -> BlockTimes:
    """Return the times of all blocks of a table; ``times`` are its columns of start and end."""
    known = _KNOWN.setdefault(export, {})
    if table not in known:
        known[table] = export.stored(table).times() or _computed(export, table, times)
    return known[table]


def _computed(export: Export, table: str, times: Wanted) -> BlockTimes:
    def span(columns: Columns) -> Columns:
        start, end = (columns[name] for name, _ in times)
        first, last = min(start.min(), end.min()), max(start.max(), end.max())
        return {"rows": np.array([len(start)]), "first": np.array([first]), "last": np.array([last])}

    return BlockTimes(**export.stream(table, times, span))
