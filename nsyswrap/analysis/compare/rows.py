"""Make the rows of a group from its events: counts, totals, typical times and their errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import Groups
from nsyswrap.analysis.compare.model import Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nsyswrap.analysis.compare.model import Key

UNNAMED = "[unnamed]"  # whose text the export lacks
MOST_ROWS = 1000  # of a group: those with the most time


@dataclass(frozen=True)
class Events:
    """One entry per event, in order of time; times in ns.

    ``code`` is the position of its row's key in ``keys``. ``first`` marks first launches and first calls,
    which no typical time includes. ``per_step_ns`` is its time in the steady part by step, None without
    steps.
    """

    keys: Sequence[Key]
    code: NDArray[Any]
    ns: NDArray[Any]
    first: NDArray[Any] | None = None
    per_step_ns: NDArray[Any] | None = None
    size_bytes: NDArray[Any] | None = None

    def rows(self) -> dict[Key, dict[str, Any]]:
        """Return the fields of the rows, the most time first."""
        every = Groups(self.code, len(self.keys)).of(self.ns)
        kept = slice(None) if self.first is None else ~self.first
        typical, error = Groups(self.code[kept], len(self.keys)).trimmed(self.ns[kept])
        fields: dict[str, Sequence[Any]] = {
            "count": every.count.tolist(),
            "total_ns": every.total.tolist(),
            "typical_ns": [None if np.isnan(value) else value for value in typical.tolist()],
            "error": relative(error, typical),
        }
        if self.per_step_ns is not None:
            fields["per_step_ns"] = np.bincount(self.code, self.per_step_ns, len(self.keys)).tolist()
        if self.size_bytes is not None:
            fields["size_bytes"] = Groups(self.code, len(self.keys)).of(self.size_bytes).total.tolist()
        order = np.argsort(-every.total, kind="stable").tolist()
        return {
            self.keys[i]: {name: values[i] for name, values in fields.items()}
            for i in order
            if fields["count"][i]
        }


def relative(error: NDArray[Any], typical: NDArray[Any]) -> list[float]:
    """Return errors as a share of what they are of; 0.0 where that is 0 or not known."""
    known = np.nan_to_num(typical) > 0
    return np.where(known, error / np.where(known, typical, 1), 0.0).tolist()  # type: ignore[no-any-return]


def bounded(fields: Mapping[Key, Mapping[str, Any]]) -> tuple[dict[Key, Row], int]:
    """Return at most MOST_ROWS rows, the first ones, and the number of those left out."""
    kept = list(fields.items())[:MOST_ROWS]
    return {key: Row(**values) for key, values in kept}, len(fields) - len(kept)
