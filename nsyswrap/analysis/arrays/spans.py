"""Find which spans of time enclose which: calls inside NVTX ranges, ranges inside ranges.

A span encloses the spans of its own thread that start no earlier and end no later. Spans of one thread may
overlap in any way: NVTX start/end ranges need not nest.
"""

from __future__ import annotations

from heapq import heappush, heapreplace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import MOST, distinct
from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Pairs = tuple[NDArray[Any], NDArray[Any]]


class Spans(NamedTuple):
    """Thread, start and end of calls or ranges; times in ns, unknown values ``MISSING``."""

    thread: NDArray[Any]
    start: NDArray[Any]
    end: NDArray[Any]


def enclosures(inner: Spans, outer: Spans) -> Pairs:
    """Return all pairs of an inner span and an outer span that encloses it, by position."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64)), *_layered(inner, outer)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def closest(inner: Spans, outer: Spans, distance: NDArray[Any], *, same: bool = False) -> NDArray[Any]:
    """Return for each inner span the enclosing outer span with the smallest distance; -1 without any.

    ``distance`` has one value per outer span; of equal ones the first span counts. ``same`` means that inner
    and outer are the same spans, and no span counts as enclosing itself.
    """
    best = np.full(len(inner.start), -1)
    for held, holder in _layered(inner, outer):
        now = best[held]
        nearer = (now < 0) | (distance[holder] < distance[now])
        nearer |= (distance[holder] == distance[now]) & (holder < now)
        nearer &= (held != holder) | (not same)
        best[held[nearer]] = holder[nearer]
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


def _layered(inner: Spans, outer: Spans) -> Iterator[Pairs]:
    """Yield the pairs layer by layer; each inner span is in at most one pair of a layer."""
    held = _by_thread(inner)
    for thread, holders in _by_thread(outer).items():
        if thread not in held:
            continue
        start, end = inner.start[held[thread]], inner.end[held[thread]]
        for part in _layers(outer.start[holders], outer.end[holders]):
            layer = holders[part]
            last = np.searchsorted(outer.start[layer], start, "right") - 1
            holds = (last >= 0) & (outer.end[layer[last]] >= end)
            yield held[thread][holds], layer[last[holds]]


def _by_thread(spans: Spans) -> dict[int, NDArray[Any]]:
    """Return the positions of each thread's spans by start, without spans that lack a thread or an end."""
    known = np.flatnonzero((spans.thread != MISSING) & (spans.end != MISSING))
    order = known[np.lexsort((spans.start[known], spans.thread[known]))]
    threads, first = np.unique(spans.thread[order], return_index=True)
    return dict(zip(threads.tolist(), np.split(order, first[1:]), strict=bool(len(threads))))


def _layers(start: NDArray[Any], end: NDArray[Any]) -> list[NDArray[Any]]:
    """Split spans, sorted by start, into the fewest layers in which no two spans touch."""
    layer = np.empty(len(start), np.int64)
    ends: list[tuple[int, int]] = []  # end and number of each layer, as a heap
    for i, (begins, until) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if ends and ends[0][0] < begins:
            layer[i] = ends[0][1]
            heapreplace(ends, (until, ends[0][1]))
        else:
            layer[i] = len(ends)
            heappush(ends, (until, len(ends)))
    return np.split(np.argsort(layer, kind="stable"), np.cumsum(np.bincount(layer))[:-1])
