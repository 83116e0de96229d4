"""Which pages of unified memory migrated, how often, and which of them came back.

A page is 4 KiB: addresses and sizes of migrations are multiples of that, and one migration moves up to 2 MiB.
Addresses are a process's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import UM_TO_DEVICE, UM_TO_HOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

PAGE_BYTES = 4096
_OTHER_WAY = {UM_TO_DEVICE: UM_TO_HOST, UM_TO_HOST: UM_TO_DEVICE}


class Pages(NamedTuple):
    """Runs of neighbouring pages of one process that migrated together every time, one entry a run.

    ``length`` is in pages. ``moves`` says how often they migrated by kind of copy, ``by_row`` by row of a
    table.
    """

    length: NDArray[Any]
    moves: dict[int, NDArray[Any]]
    by_row: dict[int, NDArray[Any]]

    def back_and_forth(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return length and migrations of the runs that went both ways, and one of them more than once."""
        there, back = self.moves[UM_TO_DEVICE], self.moves[UM_TO_HOST]
        chosen = (there > 0) & (back > 0) & ((there > 1) | (back > 1))
        return self.length[chosen], (there + back)[chosen]


class _Ranges(NamedTuple):
    """Of each migration the edges, by position, that its first page and the one behind its last begin at."""

    edges: NDArray[Any]
    first: NDArray[Any]
    end: NDArray[Any]

    def times(self, chosen: NDArray[Any]) -> NDArray[Any]:
        """Return how many of the chosen migrations moved the pages from each edge to the next."""
        begun, over = (np.bincount(part[chosen], minlength=len(self.edges)) for part in self[1:])
        return np.cumsum(begun - over)[:-1]


def _ranges(address: NDArray[Any], size_bytes: NDArray[Any]) -> _Ranges:
    ends = np.concatenate((address // PAGE_BYTES, -(-(address + size_bytes) // PAGE_BYTES)))
    edges, positions = np.unique(ends, return_inverse=True)
    return _Ranges(edges, positions[: len(address)], positions[len(address) :])


def pages_by_process(moved: Mapping[str, NDArray[Any]], rows: NDArray[Any]) -> Iterator[Pages]:
    """Yield the pages of each process.

    ``moved`` has ``global_pid``, ``copy_kind``, ``address`` and ``bytes`` of each migration, ``rows`` the row
    it belongs to. Those without an address are left out.
    """
    known = np.flatnonzero(moved["address"] != MISSING)
    for process in np.unique(moved["global_pid"][known]).tolist():
        mine = known[moved["global_pid"][known] == process]
        ranges = _ranges(moved["address"][mine], moved["bytes"][mine])
        kinds, groups = moved["copy_kind"][mine], rows[mine]
        yield Pages(
            np.diff(ranges.edges),
            {kind: ranges.times(kinds == kind) for kind in _OTHER_WAY},
            {row: ranges.times(groups == row) for row in np.unique(groups).tolist()},
        )


def page_counts(
    moved: Mapping[str, NDArray[Any]], rows: NDArray[Any], kinds: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Return, for each row, how many pages migrated, came back, and did so again; missing without address.

    ``kinds`` has the kind of copy of each row. Between devices there is no way back.
    """
    found = {name: np.full(len(kinds), MISSING) for name in ("pages", "returned_pages", "bounced_pages")}
    for pages in pages_by_process(moved, rows):
        for row, times in pages.by_row.items():
            found["pages"][row] = pages.length[times > 0].sum()
            kind = int(kinds[row])
            if kind in _OTHER_WAY:
                back = (times > 0) & (pages.moves[_OTHER_WAY[kind]] > 0)
                found["returned_pages"][row] = pages.length[back].sum()
                found["bounced_pages"][row] = pages.length[back & (pages.moves[kind] > 1)].sum()
    return found
