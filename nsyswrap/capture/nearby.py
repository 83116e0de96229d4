"""Read a window of a large capture as if what lies far from it had not been recorded.

``NearbyExport`` has some rows of the large tables. ``analysis.nearby`` says for which windows that suffices.
What it does not have, ``Capture.beyond`` looks up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.capture.partial import part_of, rows_beyond
from nsyswrap.capture.stream import Columns, in_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from nsyswrap.capture.export import Export
    from nsyswrap.capture.schema import Wanted
    from nsyswrap.capture.sqlite_pages import Leaves


class NearbyExport:
    """An export that has only these ``rows`` of some tables, from 0 and ascending.

    These are all that touch the time between ``times``, in ns. ``complete`` is the export with all rows.
    """

    def __init__(self, complete: Export, rows: Mapping[str, NDArray[Any]], times: tuple[int, int]) -> None:
        self.complete, self._rows, self.times = complete, rows, times
        self._read: dict[tuple[str, str], NDArray[Any]] = {}
        self._texts: dict[int, str | None] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what the export has
        return getattr(self.complete, name)

    def count(self, table: str) -> int:
        """Return the number of rows that are here."""
        return len(self._rows[table]) if table in self._rows else self.complete.count(table)

    def columns(self, table: str, wanted: Wanted) -> list[NDArray[Any]]:
        """Return columns of the rows that are here, as an export does."""
        if table not in self._rows:
            return self.complete.columns(table, wanted)
        missing = [item for item in wanted if (table, item[0]) not in self._read]
        read = part_of(self.complete, table, missing, self._rows[table])
        for (name, _), values in zip(missing, read, strict=True):
            values.flags.writeable = False
            self._read[table, name] = values
        return [self._read[table, name] for name, _ in wanted]

    def stream(self, table: str, wanted: Wanted, work: Callable[[Columns], Columns]) -> Columns:
        """Return the arrays that ``work`` makes of columns, as an export does."""
        if table not in self._rows:
            return self.complete.stream(table, wanted, work)
        columns = zip((name for name, _ in wanted), self.columns(table, wanted), strict=True)
        return in_blocks(dict(columns), work)

    def texts(self, ids: Iterable[int]) -> dict[int, str | None]:
        """Return texts of StringIds by id, as an export does; only those that are asked for are read."""
        missing = {*ids} - self._texts.keys()
        if missing:
            self._texts |= {**dict.fromkeys(missing), **self.complete.texts(missing, alone=True)}
        return self._texts

    def leaves(self, table: str) -> Leaves | None:
        """Return None for tables of which rows are left out: they are not read from pages."""
        return None if table in self._rows else self.complete.leaves(table)

    def has_read(self, table: str, name: str) -> bool:
        """Return True if a column was read."""
        return (table, name) in self._read or (
            table not in self._rows and self.complete.has_read(table, name)
        )

    def release(self, table: str, names: Sequence[str]) -> None:
        """Free columns of tables that are here as a whole; of others a few rows would be read again."""
        if table not in self._rows:
            self.complete.release(table, names)

    def rows_beyond(self, table: str, *, later: bool) -> Iterator[NDArray[Any]]:
        """Yield the numbers of rows that are not here, of more and more blocks away from the time that is."""
        for rows in rows_beyond(self.complete, table, self.times[later], later=later):
            yield rows[~np.isin(rows, self._rows[table])]
