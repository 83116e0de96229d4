"""Tables of columns, whose parts select the rows of a column when it is first used.

``table.of(rows)`` copies nothing but ``rows``. The part has no columns of its own, except those that are
given to ``of``, such as times that a window cut. Python calls ``__getattr__`` for what an object lacks: the
first use of a column selects its rows from ``source``, and the part keeps them. Later uses find the array as
any attribute. Each part has a part or a table as its source, and keeps it in memory.

A subclass declares its columns as fields of a dataclass. Type checkers see these alone, as ``__getattr__`` is
hidden from them. A cached property of a subclass is computed anew for each part.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.capture.stream import looked_up

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self


@dataclass(frozen=True, eq=False)
class ColumnSet:
    """A table with one array per field, all of one length; what is no array holds for every row.

    Most uses of a part need two or three columns of ten, so a part copies no column before it is used.
    """

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name) if self.rows is None else self.rows)

    @property
    def source(self) -> Self:
        """The table that this one is a part of, or itself."""
        source: Self = self.__dict__.get("_source", self)
        return source

    @property
    def rows(self) -> NDArray[Any] | None:
        """The positions of the rows in ``source``; None for a table that is no part."""
        return self.__dict__.get("_rows")

    def of(self, rows: NDArray[Any], **columns: NDArray[Any]) -> Self:
        """Return the rows at these positions, or with True at theirs, some columns replaced.

        That is the table itself for all rows in order.
        """
        rows = _positions(rows)
        if not columns and len(rows) == len(self) and _in_order(rows):
            return self
        part = object.__new__(type(self))
        part.__dict__.update(columns, _source=self, _rows=rows)
        return part

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as a column is
            """Return a column of a part, which is kept from then on."""
            if self.rows is None or all(name != field.name for field in fields(self)):
                raise AttributeError(name)
            value = getattr(self.source, name)
            if isinstance(value, ColumnSet):
                value = value.of(self.rows)
            elif isinstance(value, np.ndarray):
                value = looked_up(value, self.rows)
            self.__dict__[name] = value
            return value


def _positions(rows: NDArray[Any]) -> NDArray[Any]:
    if rows.dtype != bool:
        return rows
    return np.flatnonzero(rows).astype(np.int32 if len(rows) <= np.iinfo(np.int32).max else np.int64)


def _in_order(rows: NDArray[Any]) -> bool:
    """Return True if the positions are those of all rows in order."""
    return not len(rows) or bool(rows[0] == 0 and rows[-1] == len(rows) - 1 and (rows[1:] > rows[:-1]).all())
