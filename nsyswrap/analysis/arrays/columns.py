"""Tables of columns, whose parts select the rows of a column when it is first used."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self


@dataclass(frozen=True, eq=False)
class Columns:
    """A table with one array per field, all of one length; what is no array holds for every row.

    Most uses of a part need two or three columns of ten, so a part copies no column before it is used.
    """

    def __len__(self) -> int:
        """Return the number of rows."""
        rows = self.__dict__.get("_rows")
        return len(getattr(self, fields(self)[0].name) if rows is None else rows)

    def of(self, rows: NDArray[Any]) -> Self:
        """Return the rows at these positions, or with True at theirs."""
        part = object.__new__(type(self))
        part.__dict__.update(_source=self, _rows=np.flatnonzero(rows) if rows.dtype == bool else rows)
        return part

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as a column is
            """Return a column of a part, which is kept from then on."""
            if "_source" not in self.__dict__ or all(name != field.name for field in fields(self)):
                raise AttributeError(name)
            value = getattr(self._source, name)
            if isinstance(value, np.ndarray | Columns):
                value = value[self._rows] if isinstance(value, np.ndarray) else value.of(self._rows)
            self.__dict__[name] = value
            return value
