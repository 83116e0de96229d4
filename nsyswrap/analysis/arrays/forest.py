"""Find the spans around moments where spans nest, as push/pop ranges of a thread do: by search, not by pairs.

Spans that do not nest are left apart. They are few in most captures: of no length, the same span twice, or
start/end ranges that cross others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import order_by_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Ints = NDArray[Any]

_ROUNDS = 8  # of setting spans apart; those that still cross are all left apart


class Forest(NamedTuple):
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


def forest(start: Ints, end: Ints) -> Forest:
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
    return Forest(*(nothing,) * 5, np.arange(len(start)))


def _linked(which: Ints, start: Ints, end: Ints) -> tuple[Forest, Ints]:
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
    return Forest(which, start, end, parent, depth, which[:0]), crossing
