"""Find which spans of time enclose which: calls inside NVTX ranges, ranges inside ranges.

A span encloses the spans of its own thread that start no earlier and end no later. Spans of one thread may
overlap in any way: NVTX start/end ranges need not nest. Most nest, as push/pop ranges of a thread do: those
form a forest and are searched. The few others are left apart and compared pair by pair: those of no length,
the same span twice, or start/end ranges that cross others.

``Spans`` are threads, starts and ends, in any order. ``forest`` lays the threads behind one another on one
axis, sorts, and returns ``NestedSpans``: those that nest by start, with the parent of each, and ``apart`` the
rest. ``_Nesting`` finds the place of each inner span in it: by a binary search, then up the parents until one
ends late enough. ``enclosures`` returns all pairs, ``closest`` one for each inner span, ``tree`` the parents
of spans among themselves. Positions are those in the arrays given; "places" are those in the forest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import MOST, check_pairs, distinct, group_keys, order_by_code, repeated
from nsyswrap.base.constants import MISSING

Ints = NDArray[Any]
Pairs = tuple[NDArray[Any], NDArray[Any]]

_ROUNDS = 8  # of setting spans apart; those that still cross are all left apart


class NestedSpans(NamedTuple):
    """Spans that nest, by start, the longest first; any two are apart, touch, or one lies in the other.

    ``which`` has their positions among all spans, ``parent`` the place in this order of the span right around
    (-1: none), ``depth`` the number of spans around. ``apart`` has the positions of the other spans.
    """

    which: Ints
    start: Ints
    end: Ints
    parent: Ints
    depth: Ints
    apart: Ints

    def innermost(self, start: Ints, end: Ints) -> Ints:
        """Return the place of the innermost span around each [start, end]; -1 without any.

        At the moment where two spans touch only the later is looked at: see ``touching``.
        """
        at = np.searchsorted(self.start, start, "right") - 1
        end = np.maximum(start, end)
        rows = np.flatnonzero(at >= 0)
        while len(rows):
            rows = rows[self.end[at[rows]] < end[rows]]
            at[rows] = self.parent[at[rows]]
            rows = rows[at[rows] >= 0]
        return at

    def touching(self, start: Ints, end: Ints) -> Ints:
        """Return the positions of the moments (of no length) at which a span ends."""
        moments = np.flatnonzero(end <= start)
        return moments[np.isin(start[moments], self.end)] if len(moments) else moments

    def upward(self, at: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield for each level positions in ``at`` and the places of spans around, from the innermost on."""
        rows = np.flatnonzero(at >= 0)
        places = at[rows]
        while len(rows):
            yield rows, places
            places = self.parent[places]
            inside = places >= 0
            rows, places = rows[inside], places[inside]

    def least(self, values: Ints) -> Ints:
        """Return for each span the least of its own value and those of the spans around it."""
        least, up = np.append(values, np.iinfo(values.dtype).max), np.append(self.parent, -1)
        for _ in range(int(self.depth.max(initial=0)).bit_length()):  # each step doubles the distance climbed
            least, up = np.minimum(least, least[up]), up[up]
        return least[:-1]


def forest(start: Ints, end: Ints) -> NestedSpans:
    """Return the forest of spans on one axis, on which those of different threads never touch."""
    nested = start < end
    for _ in range(_ROUNDS):
        which = np.flatnonzero(nested)
        which = which[np.lexsort((-end[which], start[which]))]
        made, crossing = _linked(which, start[which], end[which])
        if not crossing.any():
            return made._replace(apart=np.flatnonzero(~nested))
        nested[which[crossing]] = False
    nothing = np.empty(0, np.int64)
    return NestedSpans(*(nothing,) * 5, np.arange(len(start)))


def _linked(which: Ints, start: Ints, end: Ints) -> tuple[NestedSpans, Ints]:
    """Return the forest of sorted spans and which of them do not nest: there is a forest if all do.

    If all spans before one nest, those that are open where it starts lie in each other. So their number is
    its depth, and the last span before it with a depth of one less is its parent, which must not end first.
    """
    count = len(which)
    depth = np.arange(count) - np.searchsorted(np.sort(end), start, "right")
    levels = int(depth.max(initial=0)) + 1
    by_depth = order_by_code(depth, levels)
    places = depth[by_depth] * count + by_depth
    before = np.searchsorted(places, (depth - 1) * count + np.arange(count)) - 1
    parent = np.where(depth > 0, by_depth[before] if count else before, -1)
    crossing = (depth > 0) & ((depth[parent] != depth - 1) | (end[parent] < end)) if count else depth > 0
    crossing[1:] |= (start[1:] == start[:-1]) & (end[1:] == end[:-1])
    return NestedSpans(which, start, end, parent, depth, which[:0]), crossing


_AT_ONCE = 2**20  # pairs that are compared at a time
_PAIRS = "NVTX ranges and calls inside other ranges"


class Spans(NamedTuple):
    """Thread, start and end of calls or ranges; times in ns, unknown values ``MISSING``."""

    thread: NDArray[Any]
    start: NDArray[Any]
    end: NDArray[Any]


def enclosures(inner: Spans, outer: Spans) -> Pairs:
    """Return all pairs of an inner span and an outer span that encloses it, by position.

    Raises NotInCapture if spans lie in so many others that the pairs could not be stored.
    """
    nesting = _Nesting(inner, outer)
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64)), *nesting.pairs(), *nesting.other_pairs()]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def closest(inner: Spans, outer: Spans, distance: NDArray[Any], *, same: bool = False) -> NDArray[Any]:
    """Return for each inner span the enclosing outer span with the smallest distance; -1 without any.

    ``distance`` has one value per outer span; of equal ones the first span counts. ``same`` means that inner
    and outer are the same spans, and no span counts as enclosing itself.
    """
    if len(outer.start) <= int(same):  # there is no other
        return np.full(len(inner.start), -1)
    nesting = _Nesting(inner, outer)
    nearest = np.lexsort((np.arange(len(distance)), distance))
    rank = np.empty(len(nearest), np.int64)
    rank[nearest] = np.arange(len(nearest))
    at = nesting.at
    if same and len(nesting.which):
        itself = (at >= 0) & (nesting.which[at] == nesting.inside)
        at = np.where(itself, nesting.forest.parent[at], at)
    best = np.full(len(inner.start), len(nearest))
    best[nesting.inside] = np.append(nesting.forest.least(rank[nesting.which]), len(nearest))[at]
    for held, holder in nesting.other_pairs():
        other = (held != holder) | (not same)
        np.minimum.at(best, held[other], rank[holder[other]])
    return np.append(nearest, -1)[best]  # type: ignore[no-any-return]


class _Nesting:
    """Inner spans in a forest of the outer spans that nest. Other pairs are few: these are compared.

    ``inside`` has the positions of the inner spans with a thread and an end, ``at`` the place of each in the
    forest, and ``which`` the positions of the outer spans by their place there.
    """

    def __init__(self, inner: Spans, outer: Spans) -> None:
        self.inside, self._known = (
            np.flatnonzero((spans.thread != MISSING) & (spans.end != MISSING)) for spans in (inner, outer)
        )
        parts = ((inner, self.inside), (outer, self._known))
        self._calls, self._spans = _one_order(*(Spans(*(times[rows] for times in of)) for of, rows in parts))
        self.forest = forest(*self._spans)
        self.which = self._known[self.forest.which]
        self.at = self.forest.innermost(*self._calls)
        self._touching = self.forest.touching(*self._calls)
        self.at[self._touching] = -1

    def pairs(self) -> Iterator[Pairs]:
        """Yield the pairs with spans of the forest, from the innermost to the outermost."""
        count = int((self.forest.depth[self.at[self.at >= 0]] + 1).sum())
        check_pairs(count, len(self.inside) + len(self._known), _PAIRS)
        for rows, places in self.forest.upward(self.at):
            yield self.inside[rows], self.which[places]

    def other_pairs(self) -> Iterator[Pairs]:
        """Yield the pairs of which the search in the forest knows nothing."""
        every = np.arange(len(self.inside))
        for rows, spans in ((every, self.forest.apart), (self._touching, self.forest.which)):
            if not (len(rows) and len(spans)):
                continue
            calls, outer = (
                [times[part] for times in of] for of, part in ((self._calls, rows), (self._spans, spans))
            )
            for held, holder in _compared(*calls, *outer):
                yield self.inside[rows[held]], self._known[spans[holder]]


def _one_order(*parts: Spans) -> list[Pairs]:
    """Return starts and ends on one axis, or their ranks there if it is too long."""
    if not any(len(part.start) for part in parts):
        return [(part.start, part.end) for part in parts]
    try:
        return one_axis(*parts)
    except OverflowError:
        threads = np.concatenate([part.thread for part in parts for _ in range(2)])
        ranks, _ = group_keys(threads, np.concatenate([times for part in parts for times in part[1:]]))
        ends = np.cumsum([len(part.start) for part in parts for _ in range(2)])[:-1]
        split = np.split(ranks, ends)
        return list(zip(split[::2], split[1::2], strict=True))


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
    shift, ends = codes * length - low, accumulate((len(part.start) for part in parts), initial=0)
    of_part = zip(parts, starmap(slice, pairwise(ends)), strict=True)
    return [(part.start + shift[rows], part.end + shift[rows]) for part, rows in of_part]


class EnclosedCalls:
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


class SpanTree(NamedTuple):
    """Parent (-1: none), number of ancestors, and topmost ancestor of each span, by position.

    Two spans with the same times are each other's parents. They and the spans inside have depth MISSING.
    """

    parent: NDArray[Any]
    depth: NDArray[Any]
    top: NDArray[Any]


def tree(spans: Spans) -> SpanTree:
    """Return the tree in which a span's parent is the shortest other span that encloses it."""
    parent = closest(spans, spans, spans.end - spans.start, same=True)
    top = np.where(parent < 0, np.arange(len(parent)), parent)
    depth = (parent >= 0).astype(np.int64)
    for _ in range(len(parent).bit_length()):  # each step doubles the distance climbed
        depth, top = depth + depth[top], top[top]
    return SpanTree(parent, np.where(parent[top] < 0, depth, MISSING), top)


def paths(nesting: SpanTree, names: NDArray[Any]) -> list[str | None]:
    """Return the names from the topmost span down to each span, as ``:1:4:5``; None if depth is MISSING."""
    own = np.array([f":{name}" for name in names.tolist()], dtype=object)
    texts = np.full(len(own), None, dtype=object)
    by_depth = np.argsort(nesting.depth, kind="stable")
    levels = np.flatnonzero(np.diff(nesting.depth[by_depth], prepend=MISSING))  # where each level begins
    for rows in np.split(by_depth, levels)[1:]:
        above = nesting.parent[rows]
        texts[rows] = texts[above] + own[rows] if above[0] >= 0 else own[rows]
    return texts.tolist()


def _compared(
    start: NDArray[Any], end: NDArray[Any], first: NDArray[Any], last: NDArray[Any]
) -> Iterator[Pairs]:
    """Yield the pairs of a span [start, end] and a span [first, last] around it, by position.

    Raises NotInCapture if spans lie in so many others that the pairs could not be stored.
    """
    by_start = np.argsort(start, kind="stable")
    begins = start[by_start]
    low, high = np.searchsorted(begins, first, "left"), np.searchsorted(begins, last, "right")
    count = np.maximum(high - low, 0)
    check_pairs(int(count.sum()), len(start) + len(first), _PAIRS)
    cuts = np.searchsorted(np.cumsum(count), np.arange(_AT_ONCE, int(count.sum()), _AT_ONCE))
    for rows in np.split(np.arange(len(first)), cuts):
        row, nth = repeated(count[rows])
        held, holder = by_start[low[rows[row]] + nth], rows[row]
        fits = end[held] <= last[holder]
        yield held[fits], holder[fits]
