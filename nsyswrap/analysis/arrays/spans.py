"""Find which spans of time enclose which: calls inside NVTX ranges, ranges inside ranges.

A span encloses the spans of its own thread that start no earlier and end no later. Spans of one thread may
overlap in any way: NVTX start/end ranges need not nest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import MOST, check_pairs, distinct, group_keys, repeated
from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Pairs = tuple[NDArray[Any], NDArray[Any]]

_AT_ONCE = 2**20  # pairs that are compared at a time


class Spans(NamedTuple):
    """Thread, start and end of calls or ranges; times in ns, unknown values ``MISSING``."""

    thread: NDArray[Any]
    start: NDArray[Any]
    end: NDArray[Any]


def enclosures(inner: Spans, outer: Spans) -> Pairs:
    """Return all pairs of an inner span and an outer span that encloses it, by position."""
    nothing = np.empty(0, np.int64), np.empty(0, np.int64)
    parts = [nothing, *_pairs(inner, outer, np.arange(len(outer.start)))]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def closest(inner: Spans, outer: Spans, distance: NDArray[Any], *, same: bool = False) -> NDArray[Any]:
    """Return for each inner span the enclosing outer span with the smallest distance; -1 without any.

    ``distance`` has one value per outer span; of equal ones the first span counts. ``same`` means that inner
    and outer are the same spans, and no span counts as enclosing itself.
    """
    best = np.full(len(inner.start), -1)
    nearest_last = np.lexsort((np.arange(len(distance)), distance))[::-1]
    for held, holder in _pairs(inner, outer, nearest_last):
        other = (held != holder) | (not same)
        best[held[other]] = holder[other]  # of a span that occurs several times, the last holder stays
    return best


def one_axis(*parts: Spans) -> list[Pairs]:
    """Return starts and ends on one axis where the spans of different threads never touch.

    Times of one thread keep their distances. There must be at least one span, and no time may be missing.
    Raises OverflowError if the axis is too long for 64 bits.
    """
    _, codes = distinct(np.concatenate([part.thread for part in parts]))
    times = np.concatenate([times for part in parts for times in (part.start, part.end)])
    low, length = int(times.min()), int(times.max()) - int(times.min()) + 1
    if (int(codes.max()) + 1) * length > MOST:
        raise OverflowError
    behind = np.split(codes * length - low, np.cumsum([len(part.start) for part in parts])[:-1])
    return [(part.start + by, part.end + by) for part, by in zip(parts, behind, strict=True)]


class Inside:
    """The calls that begin in each range, on its thread; a call that begins at the range's end is outside.

    ``order`` has the positions of the calls by thread and start. Range ``i`` has the calls
    ``order[first[i]:last[i]]``.
    """

    def __init__(self, calls: Spans, ranges: Spans) -> None:
        (starts, _), ends = one_axis(calls, ranges)
        self.order = np.argsort(starts, kind="stable")
        self.first, self.last = (np.searchsorted(starts[self.order], times, "left") for times in ends)

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum over the calls in each range of one value per call."""
        running = np.concatenate(([0], np.cumsum(values[self.order])))
        return running[self.last] - running[self.first]


class Tree(NamedTuple):
    """Parent (-1: none), number of ancestors, and topmost ancestor of each span, by position.

    Two spans with the same times are each other's parents. They and the spans inside have depth MISSING.
    """

    parent: NDArray[Any]
    depth: NDArray[Any]
    top: NDArray[Any]


def tree(spans: Spans) -> Tree:
    """Return the tree in which a span's parent is the shortest other span that encloses it."""
    parent = closest(spans, spans, spans.end - spans.start, same=True)
    top = np.where(parent < 0, np.arange(len(parent)), parent)
    depth = (parent >= 0).astype(np.int64)
    for _ in range(len(parent).bit_length()):  # each step doubles the distance climbed
        depth, top = depth + depth[top], top[top]
    return Tree(parent, np.where(parent[top] < 0, depth, MISSING), top)


def paths(nesting: Tree, names: NDArray[Any]) -> list[str | None]:
    """Return the names from the topmost span down to each span, as ``:1:4:5``; None if depth is MISSING."""
    parent, label = nesting.parent.tolist(), names.tolist()
    texts: list[str | None] = [None] * len(parent)
    for i in np.argsort(nesting.depth, kind="stable")[(nesting.depth == MISSING).sum() :].tolist():
        texts[i] = f"{texts[parent[i]] if parent[i] >= 0 else ''}:{label[i]}"
    return texts


def _pairs(inner: Spans, outer: Spans, order: NDArray[Any]) -> Iterator[Pairs]:
    """Yield pairs of an inner span and an enclosing outer one, those of the outer spans in this order.

    Raises NotInCapture if spans lie in so many others that the pairs could not be stored.
    """
    inside = np.flatnonzero((inner.thread != MISSING) & (inner.end != MISSING))
    order = order[(outer.thread[order] != MISSING) & (outer.end[order] != MISSING)]
    threads = (inner.thread[inside], outer.thread[order], outer.thread[order])
    times = (inner.start[inside], outer.start[order], outer.end[order])
    codes, _ = group_keys(np.concatenate(threads), np.concatenate(times))
    begins, first, last = np.split(codes, np.cumsum([len(inside), len(order)]))
    by_start = np.argsort(begins, kind="stable")
    begins = begins[by_start]
    first, last = np.searchsorted(begins, first, "left"), np.searchsorted(begins, last, "right")
    count = np.maximum(last - first, 0)
    check_pairs(int(count.sum()), len(inside) + len(order), "NVTX ranges and calls inside other ranges")
    passed = np.cumsum(count)
    cuts = np.searchsorted(passed, np.arange(_AT_ONCE, int(count.sum()), _AT_ONCE))
    for rows in np.split(np.arange(len(order)), cuts):
        row, nth = repeated(count[rows])
        held, holder = inside[by_start[first[rows[row]] + nth]], order[rows[row]]
        fits = inner.end[held] <= outer.end[holder]
        yield held[fits], holder[fits]
