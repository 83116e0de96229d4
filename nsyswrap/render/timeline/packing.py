"""Order the events of a lane, and move those that overlap into sub-lanes, or by their depth.

Perfetto nests the slices of a lane by their times. Slices that cross would be drawn in the wrong place or
not at all. Times are in ns. No slice ends before it starts. Slices that only touch do not overlap. The slices
of a lane are in drawing order: by start, and of equal starts the outer one first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import order_by_code

Ints = NDArray[Any]


def drawing_order(lane: Ints, lanes: int, rank: Ints, start: Ints, end: Ints) -> Ints:
    """Return the order of slices by lane, in ``range(lanes)``, and in drawing order in each lane.

    Of equal starts the slice of the lower rank is outside, and of equal ranks the longer one.
    """
    order: Ints = order_by_code(lane, lanes)
    of, begins = lane[order], start[order]
    if ((of[1:] == of[:-1]) & (begins[1:] <= begins[:-1])).any():  # rows of nsys mostly come in order
        order = order[np.lexsort((-end[order], rank[order], begins, of))]
    return order


def by_lane(lane: Ints) -> Iterator[slice]:
    """Yield the rows of each lane. The lanes are ascending."""
    cuts = [0, *(np.flatnonzero(lane[1:] != lane[:-1]) + 1).tolist(), len(lane)]
    return map(slice, cuts[:-1], cuts[1:]) if len(lane) else iter(())


def rows_by_lane(lane: Ints, lanes: int, order: Ints | None = None) -> list[Ints]:
    """Return the rows of each lane in ``range(lanes)``: ascending, or in an ``order`` that is by lane."""
    if not lanes:  # np.split returns one part
        return []
    order = order_by_code(lane, lanes) if order is None else order
    return np.split(order, np.cumsum(np.bincount(lane, minlength=lanes))[:-1])


def sublanes(
    rows_of: Iterable[Ints], start: Ints, end: Ints, split: Callable[[Ints, Ints], Ints]
) -> Iterator[tuple[int, int, Ints]]:
    """Yield number, sub-lane and rows of each sub-lane of lanes with these rows, as ``split`` parts them."""
    for number, rows in enumerate(rows_of):
        sublane = split(start[rows], end[rows])
        for one in range(int(sublane.max(initial=-1)) + 1):
            yield number, one, rows[sublane == one] if sublane.any() else rows


def event_places(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the place of each slice's begin and of its end among all 2n events of a lane.

    Slices end from the inside out, and before one begins at the same time.
    """
    numbers = np.arange(len(start))
    if (start[1:] >= end[:-1]).all():
        return 2 * numbers, 2 * numbers + 1
    _, closing, ended = _closing(start, end)
    ends = np.empty_like(numbers)
    ends[closing[0]] = closing[1] + numbers
    return numbers + ended, ends


def _closing(start: Ints, end: Ints) -> tuple[bool, tuple[Ints, Ints], Ints]:
    """Return whether all slices nest, and what is needed to order their begins and ends.

    That is the slices by end with the number of those that have begun before, and for each slice the number
    of those that have ended before it begins.
    """
    numbers = np.arange(len(start))
    begun = np.maximum(numbers + 1, np.searchsorted(start, end, "left"))
    order = numbers[::-1][np.argsort(begun[::-1], kind="stable")]  # of one gap the innermost first
    ended = np.cumsum(np.bincount(begun, minlength=len(start) + 1))[:-1]
    # Where all nest, the ends ascend, and as many slices are open after the end of one as before its begin.
    ascending = bool((end[order][1:] >= end[order][:-1]).all())
    nests = ascending and bool((begun[order] - numbers - 1 == (numbers - ended)[order]).all())
    return nests, (order, begun[order]), ended


def nested(start: Ints, end: Ints) -> Ints:
    """Return for each slice of a lane a sub-lane in which all slices nest; 0 is the lane itself."""
    sublane = np.zeros(len(start), np.int64)
    if (start[1:] >= end[:-1]).all() or _closing(start, end)[0]:
        return sublane
    stacks: list[list[int]] = []  # of end times, one for each sub-lane
    for row, begins, until in _meeting(start, end, crossing(start, end)):
        fitting = (number for number, stack in enumerate(stacks) if _fits_inside(stack, begins, until))
        sublane[row] = number = next(fitting, len(stacks))
        if number == len(stacks):
            stacks.append([])
        stacks[number].append(until)
    return sublane


def crossing(start: Ints, end: Ints) -> Ints:
    """Return a mask of the slices that overlap another slice of their lane without nesting."""
    numbers = np.arange(len(start))
    long = np.flatnonzero(end > start)  # a slice of no length crosses no other
    first, last = start[long], end[long]
    closing = np.lexsort((-numbers[: len(long)], last))
    opens = np.arange(len(long)) + np.searchsorted(last[closing], first, "right")
    closes = np.empty_like(opens)
    closes[closing] = np.arange(len(long)) + np.searchsorted(first, last[closing], "left")
    # A slice crosses no other if the same slices are open at its start and at its end. Each slice gets a
    # random number, and the XOR of the open ones' numbers is compared. Different sets have equal XORs with a
    # probability of 2^-63.
    mark = np.random.default_rng(0).integers(0, 2**63, len(long))
    opened = np.zeros(2 * len(long), np.int64)
    opened[opens], opened[closes] = mark, mark
    opened = np.bitwise_xor.accumulate(opened) if len(long) else opened
    crosses = np.zeros(len(start), dtype=bool)
    crosses[long] = (opened[opens] ^ mark) != opened[closes]
    return crosses


def _fits_inside(stack: list[int], start: int, end: int) -> bool:
    while stack and stack[-1] <= start:
        stack.pop()
    return not stack or end <= stack[-1]


def disjoint(start: Ints, end: Ints) -> Ints:
    """Return for each slice of a lane a sub-lane in which no slices overlap; 0 is the lane itself."""
    overlaps = np.zeros(len(start), dtype=bool)
    reached = np.maximum.accumulate(end)
    overlaps[1:] = start[1:] < reached[:-1]
    numbers = np.arange(len(start))
    place = numbers - np.maximum.accumulate(np.where(overlaps, 0, numbers))  # among slices that are joined
    sublane = place & 1  # where no three overlap
    many = np.flatnonzero(start[2:] < reached[:-2]) + 2
    if not len(many):
        return sublane
    group = np.cumsum(~overlaps)
    crowded = np.zeros(group[-1] + 1, dtype=bool)
    crowded[group[many]] = True
    busy: list[tuple[int, int]] = []  # end and number of each used sub-lane, as a heap
    free: list[int] = []  # a heap, too
    meets = crowded[group]
    numbered: list[int] = []
    for begins, until in zip(start[meets].tolist(), end[meets].tolist(), strict=True):
        while busy and busy[0][0] <= begins:
            heappush(free, heappop(busy)[1])
        numbered.append(heappop(free) if free else len(busy))
        heappush(busy, (until, numbered[-1]))
    sublane[meets] = numbered
    return sublane


def _meeting(start: Ints, end: Ints, meets: Ints) -> Iterator[tuple[int, ...]]:
    """Yield number, start and end of each slice that meets another. All others fit the lane."""
    return zip(np.flatnonzero(meets).tolist(), start[meets].tolist(), end[meets].tolist(), strict=True)


def few_disjoint(start: Ints, end: Ints, most: int = 4) -> Ints:
    """Return sub-lanes as ``disjoint`` does. The last of at most ``most`` keeps what fits nowhere else."""
    return np.minimum(disjoint(start, end), most - 1)


def outermost(start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Mark the spans of depth 0; see ``levels``."""
    marks = np.ones(len(start), dtype=bool)
    marks[1:] = np.maximum.accumulate(_until(start, end))[:-1] <= start[1:]
    return marks


def levels(start: Ints, end: Ints) -> Ints:
    """Return for each span the number of spans that are open when it starts, if all spans nest.

    Spans are sorted by start. Of equal starts the longest is first. If some cross, the depths are such that
    no two spans of a depth overlap.
    """
    if crossing(start, end).any():
        return disjoint(start, _until(start, end))
    ends = np.sort(_until(start, end))
    depth: Ints = np.arange(len(start)) - np.searchsorted(ends, start, "right")
    return depth


def _until(start: Ints, end: Ints) -> Ints:
    until: Ints = np.maximum(end, start + 1)  # an empty span is still open at its start
    return until
