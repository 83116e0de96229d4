"""Which spans of time lie in which: calls in NVTX ranges, ranges in each other.

A span holds those of its own thread that start no earlier and end no later than it does. Spans of one thread
may overlap in any way: NVTX ranges of start/end need not nest.
"""

from __future__ import annotations

from heapq import heappush, heapreplace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct
from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Pairs = tuple[NDArray[Any], NDArray[Any]]


class Spans(NamedTuple):
    """Thread, start and end of calls or ranges, in ns; ``MISSING`` where one is unknown."""

    thread: NDArray[Any]
    start: NDArray[Any]
    end: NDArray[Any]


def enclosures(inner: Spans, outer: Spans) -> Pairs:
    """Return all pairs of an inner span and an outer one that holds it, by their numbers."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64)), *_layered(inner, outer)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def closest(inner: Spans, outer: Spans, distance: NDArray[Any], *, same: bool = False) -> NDArray[Any]:
    """Return the outer span of the smallest distance that holds each inner one; -1: none does.

    ``distance`` is per outer span; of equals the first counts. ``same``: both are the same spans, and none
    holds itself.
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
    """Return starts and ends on one axis, on which the threads lie one behind another and never touch.

    Within a thread all times keep their distances. They have to be known, of one span at least.
    """
    _, codes = distinct(np.concatenate([part.thread for part in parts]))
    times = np.concatenate([times for part in parts for times in (part.start, part.end)])
    low, length = int(times.min()), int(times.max()) - int(times.min()) + 1
    behind = np.split(codes * length - low, np.cumsum([len(part.start) for part in parts])[:-1])
    return [(part.start + by, part.end + by) for part, by in zip(parts, behind, strict=True)]


class Inside:
    """The calls that begin in each range, on its thread; one that begins at its end is not in it.

    ``order`` has the calls' positions by thread and start, and range ``i`` the calls
    ``order[first[i]:last[i]]``.
    """

    def __init__(self, calls: Spans, ranges: Spans) -> None:
        (starts, _), ends = one_axis(calls, ranges)
        self.order = np.argsort(starts, kind="stable")
        self.first, self.last = (np.searchsorted(starts[self.order], times, "left") for times in ends)

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of one value per call over the calls in each range."""
        running = np.concatenate(([0], np.cumsum(values[self.order])))
        return running[self.last] - running[self.first]


class Tree(NamedTuple):
    """What holds each span: its parent (-1: none), how many stand above it, and the topmost, by number.

    Two spans with the same times are each other's parents: they, and what lies in them, have depth MISSING.
    """

    parent: NDArray[Any]
    depth: NDArray[Any]
    top: NDArray[Any]


def tree(spans: Spans) -> Tree:
    """Return the tree in which a span's parent is the tightest other one that holds it."""
    parent = closest(spans, spans, spans.end - spans.start, same=True)
    top = np.where(parent < 0, np.arange(len(parent)), parent)
    depth = (parent >= 0).astype(np.int64)
    for _ in range(len(parent).bit_length()):  # each time twice as far up
        depth, top = depth + depth[top], top[top]
    return Tree(parent, np.where(parent[top] < 0, depth, MISSING), top)


def paths(nesting: Tree, names: NDArray[Any]) -> list[str | None]:
    """Return the names from the topmost span down to each one, as ``:1:4:5``; None without a depth."""
    parent, label = nesting.parent.tolist(), names.tolist()
    made: list[str | None] = [None] * len(parent)
    for i in np.argsort(nesting.depth, kind="stable")[(nesting.depth == MISSING).sum() :].tolist():
        made[i] = f"{made[parent[i]] if parent[i] >= 0 else ''}:{label[i]}"
    return made


def _layered(inner: Spans, outer: Spans) -> Iterator[Pairs]:
    """Yield the pairs layer by layer: each inner span is in one pair of a layer at most."""
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
    """Return the numbers of each thread's spans, by start; without a thread or an end they meet nothing."""
    known = np.flatnonzero((spans.thread != MISSING) & (spans.end != MISSING))
    order = known[np.lexsort((spans.start[known], spans.thread[known]))]
    threads, first = np.unique(spans.thread[order], return_index=True)
    return dict(zip(threads.tolist(), np.split(order, first[1:]), strict=bool(len(threads))))


def _layers(start: NDArray[Any], end: NDArray[Any]) -> list[NDArray[Any]]:
    """Part spans, which come in order of their starts, into as few layers as can be: in none do two touch."""
    layer = np.empty(len(start), np.int64)
    ends: list[tuple[int, int]] = []  # of the last span of each layer; the earliest is first
    for i, (begins, until) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if ends and ends[0][0] < begins:
            layer[i] = ends[0][1]
            heapreplace(ends, (until, ends[0][1]))
        else:
            layer[i] = len(ends)
            heappush(ends, (until, len(ends)))
    return np.split(np.argsort(layer, kind="stable"), np.cumsum(np.bincount(layer))[:-1])
