"""Move bars that overlap without nesting into sub-lanes.

A viewer nests the bars of a lane by their times. Bars that cross would be drawn in the wrong place or not at
all. Lanes are integers, times are in ns. No bar ends before it starts. Bars that only touch do not overlap.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Ints = NDArray[Any]


def crossing(lane: Ints, start: Ints, end: Ints) -> Ints:
    """Return a mask of the bars that overlap another bar of their lane without nesting.

    Bars are sorted by lane and start. Of equal starts the earlier bar is outside.
    """
    numbers = np.arange(len(start))
    long = np.flatnonzero(end > start)  # a bar of no length crosses no other
    first, last = _one_axis(lane[long], start[long], end[long])
    closing = np.lexsort((-numbers[: len(long)], last))
    opens = np.arange(len(long)) + np.searchsorted(last[closing], first, "right")
    closes = np.empty_like(opens)
    closes[closing] = np.arange(len(long)) + np.searchsorted(first, last[closing], "left")
    # A bar crosses no other if the same bars are open at its start and at its end. Each bar gets a random
    # number, and the XOR of the open bars' numbers is compared. Different sets have equal XORs with a
    # probability of 2^-63.
    mark = np.random.default_rng(0).integers(0, 2**63, len(long))
    opened = np.zeros(2 * len(long), np.int64)
    opened[opens], opened[closes] = mark, mark
    opened = np.bitwise_xor.accumulate(opened) if len(long) else opened
    crosses = np.zeros(len(start), dtype=bool)
    crosses[long] = (opened[opens] ^ mark) != opened[closes]
    return crosses


def overlapping(lane: Ints, start: Ints, end: Ints) -> Ints:
    """Return a mask of the bars that overlap another bar of their lane or start with it.

    Bars are sorted by lane and start.
    """
    first, last = _one_axis(lane, start, end)
    reached = np.maximum.accumulate(last)
    overlaps = np.zeros(len(start), dtype=bool)
    overlaps[1:] = (first[1:] < reached[:-1]) | (first[1:] == first[:-1])
    overlaps[:-1] |= overlaps[1:]
    return overlaps


def nested(lane: Ints, rank: Ints, start: Ints, end: Ints) -> Ints:
    """Return for each bar a sub-lane in which all bars nest; 0 is the lane itself.

    Of equal starts the bar of the lower rank is outside, and of equal ranks the longer bar.
    """
    order = np.lexsort((-end, rank, start, lane))
    bars = lane[order], start[order], end[order]
    sublane = np.zeros(len(order), np.int64)
    open_ends: dict[int, list[list[int]]] = {}  # by lane, a stack of end times for each sub-lane
    for row, own, begins, until in _meeting(order, bars, crossing(*bars)):
        stacks = open_ends.setdefault(own, [])
        fitting = (number for number, stack in enumerate(stacks) if _fits_inside(stack, begins, until))
        sublane[row] = number = next(fitting, len(stacks))
        if number == len(stacks):
            stacks.append([])
        stacks[number].append(until)
    return sublane


def _fits_inside(stack: list[int], start: int, end: int) -> bool:
    while stack and stack[-1] <= start:
        stack.pop()
    return not stack or end <= stack[-1]


def disjoint(lane: Ints, start: Ints, end: Ints) -> Ints:
    """Return for each bar a sub-lane in which no bars overlap; 0 is the lane itself."""
    order = np.lexsort((-end, start, lane))
    bars = lane[order], start[order], end[order]
    sublane = np.zeros(len(order), np.int64)
    busy: dict[int, list[tuple[int, int]]] = {}  # by lane, end and number of each used sub-lane, as a heap
    free: dict[int, list[int]] = {}  # by lane, a heap too
    for row, own, begins, until in _meeting(order, bars, overlapping(*bars)):
        used, unused = busy.setdefault(own, []), free.setdefault(own, [])
        while used and used[0][0] <= begins:
            heappush(unused, heappop(used)[1])
        sublane[row] = heappop(unused) if unused else len(used)
        heappush(used, (until, int(sublane[row])))
    return sublane


def _meeting(order: Ints, bars: tuple[Ints, Ints, Ints], meets: Ints) -> Iterator[tuple[int, ...]]:
    """Yield row, lane, start and end of each bar that meets another. All other bars fit the lane."""
    return zip(order[meets].tolist(), *(part[meets].tolist() for part in bars), strict=True)


def _one_axis(lane: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Put the lanes on one time axis, one after another, so that they never touch."""
    if not len(lane):
        return start, end
    _, order = distinct(np.concatenate((start, end)))  # places in the order of time, which fit in 64 bits
    start, end = np.split(order, 2)
    behind = lane * (int(order.max()) + 1)
    return start + behind, end + behind
