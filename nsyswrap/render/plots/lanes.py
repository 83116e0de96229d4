"""Lanes of a timeline: how much of each short stretch of time every kind of event takes.

However many events there are, a lane has BINS figures for each kind: the part of the bin in which one of them
went on, never a guess about a single event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.intervals import overlap, union

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BINS = 600  # a pixel each on a screen


class Kind(NamedTuple):
    """What a lane tells apart, in the order of the legend; what ``hangs`` is drawn from above."""

    order: int
    label: str
    color: str
    hangs: bool = False


class Range(NamedTuple):
    """A range that is drawn by itself; times in ns."""

    start_ns: int
    end_ns: int
    name: str | None


@dataclass(frozen=True)
class Lane:
    """One row of a timeline: by kind of event the part of each bin that it takes, and single ranges."""

    label: str
    shares: dict[Kind, NDArray[Any]]
    ranges: list[Range] = field(default_factory=list)


def bins(start_ns: int, end_ns: int) -> NDArray[Any]:
    """Return the BINS + 1 edges of a window, in ns; of one shorter than that many ns, fewer."""
    return np.unique(np.linspace(start_ns, max(end_ns, start_ns + 1), BINS + 1).round().astype(np.int64))


def shares(
    start: NDArray[Any], end: NDArray[Any], kind: NDArray[Any], kinds: Sequence[Kind], edges: NDArray[Any]
) -> dict[Kind, NDArray[Any]]:
    """Return by kind the part of every bin in which at least one of its events was open.

    ``kind`` numbers those in ``kinds``; what lies outside all bins is left out.
    """
    found = {}
    for number, which in enumerate(kinds):
        mine = np.flatnonzero(kind == number)
        cover = union(start[mine], end[mine])
        taken = overlap(cover.start, cover.end, edges[:-1], edges[1:])
        if taken.any():
            found[which] = taken / np.diff(edges)
    return found


def busiest(codes: NDArray[Any], lasting_ns: NDArray[Any], most: int) -> NDArray[Any]:
    """Return the codes of the most time, in their order."""
    total = np.bincount(codes, lasting_ns)
    return np.sort(np.argsort(-total, kind="stable")[:most])
