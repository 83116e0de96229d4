"""Where bars of one lane overlap without nesting, they are drawn in lanes beside it.

A viewer stacks the bars of a lane by their times: what crosses would be drawn in the wrong place, or not at
all. Lanes are numbers, times in ns; no bar ends before it starts. One that ends where another starts is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Ints = NDArray[Any]


def crossing(lane: Ints, start: Ints, end: Ints) -> Ints:
    """Mark the bars that overlap another one of their lane without one holding the other.

    The bars come by lane and start, those around others first; of equal starts the later one is inside.
    """
    numbers = np.arange(len(start))
    long = np.flatnonzero(end > start)  # what takes no time crosses nothing
    first, last = _one_axis(lane[long], start[long], end[long])
    closing = np.lexsort((-numbers[: len(long)], last))
    opens = np.arange(len(long)) + np.searchsorted(last[closing], first, "right")
    closes = np.empty_like(opens)
    closes[closing] = np.arange(len(long)) + np.searchsorted(first, last[closing], "left")
    # What opens inside a bar closes inside it if the sums of all that is open are equal at both of its ends:
    # of random numbers, so that none but equal sets sum up to the same (within 2^-64).
    mark = np.random.default_rng(0).integers(0, 2**63, len(long))
    opened = np.zeros(2 * len(long), np.int64)
    opened[opens], opened[closes] = mark, mark
    opened = np.bitwise_xor.accumulate(opened) if len(long) else opened
    found = np.zeros(len(start), dtype=bool)
    found[long] = (opened[opens] ^ mark) != opened[closes]
    return found


def overlapping(lane: Ints, start: Ints, end: Ints) -> Ints:
    """Mark the bars that overlap another one of their lane or start with it; they come by lane and start."""
    first, last = _one_axis(lane, start, end)
    reached = np.maximum.accumulate(last)
    found = np.zeros(len(start), dtype=bool)
    found[1:] = (first[1:] < reached[:-1]) | (first[1:] == first[:-1])
    found[:-1] |= found[1:]
    return found


def nested(lane: Ints, rank: Ints, start: Ints, end: Ints) -> Ints:
    """Return the number of each bar's sub-lane, so that in each all bars nest; 0 is the lane itself.

    Of bars that start together the one of the lower rank is outside, of equal ranks the longer one.
    """
    order = np.lexsort((-end, rank, start, lane))
    bars = lane[order], start[order], end[order]
    return _placed(order, bars, crossing(*bars), _fits_inside)


def disjoint(lane: Ints, start: Ints, end: Ints) -> Ints:
    """Return the number of each bar's sub-lane, so that in each no two bars overlap; 0 is the lane itself."""
    order = np.lexsort((-end, start, lane))
    bars = lane[order], start[order], end[order]
    return _placed(order, bars, overlapping(*bars), _fits_behind)


def _placed(
    order: Ints, bars: tuple[Ints, Ints, Ints], meets: Ints, fits: Callable[[list[int], int, int], bool]
) -> Ints:
    """Put each bar that meets another into the first sub-lane that it fits; all others fit the lane."""
    found = np.zeros(len(order), np.int64)
    open_ends: dict[int, list[list[int]]] = {}  # of each lane, by sub-lane
    moved = order[meets].tolist()
    rows = zip(moved, *(part[meets].tolist() for part in bars), strict=True)
    for row, lane, start, end in rows:
        stacks = open_ends.setdefault(lane, [])
        number = next((n for n, stack in enumerate(stacks) if fits(stack, start, end)), len(stacks))
        if number == len(stacks):
            stacks.append([])
        stacks[number].append(end)
        found[row] = number
    return found


def _fits_inside(stack: list[int], start: int, end: int) -> bool:
    while stack and stack[-1] <= start:
        stack.pop()
    return not stack or end <= stack[-1]


def _fits_behind(stack: list[int], start: int, end: int) -> bool:  # noqa: ARG001 - as _fits_inside
    return not stack or stack[-1] <= start


def _one_axis(lane: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Put the lanes one behind another, so that they never touch."""
    if not len(lane):
        return start, end
    low = int(start.min())
    behind = lane * (int(end.max()) - low + 1) - low
    return start + behind, end + behind
