"""A lane of the timeline: events that share a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

KERNELS, COPIES, CALLS, RANGES = ("kernels", "copies", "calls", "ranges")  # families of events


@dataclass(frozen=True)
class Lane:
    """Events in order of start; times in ns.

    ``series`` numbers ``kinds``, pairs of a family and what its events are within it; ``name`` numbers
    ``names``. ``row`` is an event's number among all API calls, -1 where it is none; ``call`` is that of the
    call which launched it, -1 where none did.
    """

    group: str
    title: str
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    series: NDArray[Any]
    kinds: Sequence[tuple[str, str]]
    name: NDArray[Any]
    names: Sequence[str]
    row: NDArray[Any]
    call: NDArray[Any]

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.start_ns)


def nothing(count: int) -> NDArray[Any]:
    """Return so many -1: no call."""
    return np.full(count, -1)


def split(order: NDArray[Any], codes: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the rows of each code, as they stand in ``order``, which is by code."""
    return np.split(order, np.cumsum(np.bincount(codes))[:-1])


def said(number: int) -> str:
    """Write an id, which an export may lack."""
    return "?" if number == MISSING else str(number)


def texts(names: Sequence[str | None]) -> list[str]:
    """Return names, those of whom the export has none too."""
    return ["(no name)" if name is None else name for name in names]
