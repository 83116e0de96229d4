"""Find the modes of a kernel's durations, and shorten its durations to a table of a few pairs.

One kernel of one grid can have several modes of duration, as a matrix product of several sizes has. A mean
over them would change with the mix of launches. So modes that are clearly apart are rows of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pairs = tuple[tuple[int, int], ...]

MOST_PAIRS = 32  # of a duration and its count
_FEWEST = 8  # launches of a mode
_FAIR = 10  # one in so many launches of a kernel is in each mode, at least
_BETWEEN = 100  # one in so many launches of a kernel may lie between two modes
_LEAST_RATIO = np.log(1.1)  # of the durations on both sides of a gap
_LEAST_NS = 100  # GPUs count time in steps of 32 ns
_CLEAR = 2.0  # a gap is so many times as wide as the modes beside it, at least
_EXACT = 1e-3  # of the width of a mode: launches of equal duration have none
_INSIDE = (0.1, 0.9)  # quantiles between which the width of a mode is taken


def mode_cuts(codes: NDArray[Any], ns: NDArray[Any], groups: int) -> dict[int, NDArray[Any]]:
    """Return the shortest duration of each mode but the first, for each group that has several modes.

    Rows are sorted by group, then by duration in ns. Each mode has a fair share of the launches. The gap
    between two modes is wide as a ratio of durations, and clearly wider than either mode.
    """
    count = np.bincount(codes, minlength=groups)
    first = np.cumsum(count) - count
    candidates = np.flatnonzero(count >= 2 * _FEWEST)
    if not len(candidates):
        return {}
    row = np.flatnonzero(np.isin(codes, candidates))
    later = row + (1 + count // _BETWEEN)[codes[row]]
    fits = later < (first + count)[codes[row]]
    row, later = row[fits], later[fits]
    wide = ns[later] - ns[row] >= _LEAST_NS
    row, later = row[wide], later[wide]
    row = row[np.log(ns[later]) - np.log(np.maximum(ns[row], 1)) >= _LEAST_RATIO]
    cuts = {}
    for group in np.unique(codes[row]).tolist():
        own = slice(int(first[group]), int(first[group] + count[group]))
        gaps = row[np.searchsorted(row, own.start) : np.searchsorted(row, own.stop)] - own.start
        if len(edges := _edges(np.log(np.maximum(ns[own], 1)), gaps)):
            cuts[group] = ns[own][edges]
    return cuts


def _edges(logs: NDArray[Any], gaps: NDArray[Any]) -> NDArray[Any]:
    """Return the first position of each mode but the first; ``gaps`` are positions before wide gaps."""
    between = len(logs) // _BETWEEN
    parts = np.split(gaps, np.flatnonzero(np.diff(gaps) > between + 1) + 1)
    # One gap has several positions before it if launches lie in it: it is cut where it is emptiest.
    steps = np.diff(logs)
    found = [int(part[0] + steps[part[0] : part[-1] + between + 1].argmax()) + 1 for part in parts]
    edges = np.unique([0, *found, len(logs)])
    fewest = max(_FEWEST, len(logs) // _FAIR)
    while len(edges) > 2:  # noqa: PLR2004 - both ends
        parts = np.split(logs, edges[1:-1])
        low, high = np.array([[part[round(q * (len(part) - 1))] for q in _INSIDE] for part in parts]).T
        widest = np.maximum(np.maximum((high - low)[1:], (high - low)[:-1]), _EXACT)
        clear = (low[1:] - high[:-1]) / widest
        short = np.diff(edges) < fewest
        clear[short[1:] | short[:-1]] = 0
        if clear.min() >= _CLEAR:
            break
        edges = np.delete(edges, int(clear.argmin()) + 1)
    return edges[1:-1]


def duration_tables(codes: NDArray[Any], ns: NDArray[Any], groups: int) -> list[Pairs]:
    """Return pairs of duration in ns and count for each group, ascending; at most MOST_PAIRS of them.

    Rows are sorted by group, then by duration. With more distinct durations, each pair is the mean of an
    equal share of the launches, rounded to 1 ns: so the sum of all products is the total time.
    """
    if not len(codes):
        return [()] * groups
    count = np.bincount(codes, minlength=groups)
    rank = np.arange(len(codes)) - (np.cumsum(count) - count)[codes]
    other = (np.diff(ns, prepend=-1) != 0) | (rank == 0)
    number = np.cumsum(other) - 1
    of_group = np.bincount(codes[other], minlength=groups)
    own = number - (np.cumsum(of_group) - of_group)[codes]  # which of the distinct durations of its group
    place = np.where((of_group > MOST_PAIRS)[codes], rank * MOST_PAIRS // count[codes], own)
    starts = np.flatnonzero((np.diff(place, prepend=-1) != 0) | (rank == 0))
    counts = np.diff(starts, append=len(codes))
    means = np.rint(np.add.reduceat(ns, starts) / counts).astype(np.int64)
    tables: list[dict[int, int]] = [{} for _ in range(groups)]
    for group, mean, times in zip(codes[starts].tolist(), means.tolist(), counts.tolist(), strict=True):
        tables[group][mean] = tables[group].get(mean, 0) + times
    return [tuple(table.items()) for table in tables]
