"""What intervals cover, their gaps and overlaps: drawn on paper, and counted nanosecond by nanosecond."""

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nsyswrap.capture import intervals
from nsyswrap.capture.intervals import IntervalSet, gaps, intersection, overlap, union

# Busy from 5 to 10 and from 15 to 30: one interval inside another, two that touch, an empty one at the end.
STARTS = np.array([15, 5, 20, 7, 30, 17])
ENDS = np.array([17, 10, 30, 9, 30, 20])
NOTHING = np.empty(0, np.int64)


def pairs(cover: IntervalSet) -> list[tuple[int, int]]:
    return list(zip(cover.start.tolist(), cover.end.tolist(), strict=True))


def test_the_union_joins_what_touches_and_drops_what_is_empty() -> None:
    covered = union(STARTS, ENDS)
    assert pairs(covered) == [(5, 10), (15, 30)]
    assert covered.length == 5 + 15


def test_a_long_interval_covers_the_short_ones_behind_it() -> None:
    assert pairs(union(np.array([0, 1, 4, 20]), np.array([10, 2, 5, 21]))) == [(0, 10), (20, 21)]


def test_a_cover_holds_its_starts_and_not_its_ends() -> None:
    held = union(STARTS, ENDS).holds(np.array([4, 5, 9, 10, 15, 29, 30, 99]))
    assert held.tolist() == [False, True, True, False, True, True, False, False]


def test_a_cover_holds_a_part_of_what_overlaps_it_and_what_takes_no_time_in_it() -> None:
    start, end = np.array([0, 0, 9, 10, 12, 5, 10, 30]), np.array([5, 6, 12, 15, 40, 5, 10, 30])
    held = union(STARTS, ENDS).holding(start, end)
    assert held.tolist() == [False, True, True, False, True, True, False, False]


def test_how_much_of_a_cover_is_within() -> None:
    start, end = np.array([0, 6, 8, 11, 0, 29, 30]), np.array([5, 8, 16, 14, 99, 40, 31])
    assert union(STARTS, ENDS).within(start, end).tolist() == [0, 2, 2 + 1, 0, 20, 1, 0]


def test_the_intersection_is_what_both_cover() -> None:
    # [5,10) and [15,30) with [0,6), [8,16), [20,25), [30,40)
    other = union(np.array([0, 8, 20, 30]), np.array([6, 16, 25, 40]))
    assert pairs(intersection(union(STARTS, ENDS), other)) == [(5, 6), (8, 10), (15, 16), (20, 25)]
    assert pairs(intersection(other, other)) == pairs(other)


def test_gaps_stand_between_the_last_to_end_and_the_next_to_start() -> None:
    before, after = gaps(STARTS, ENDS)
    assert [(ENDS[i], STARTS[j]) for i, j in zip(before, after, strict=True)] == [(10, 15)]
    assert (before.tolist(), after.tolist()) == ([1], [0])


def test_of_those_that_end_together_the_last_in_the_arrays_is_before_the_gap() -> None:
    before, after = gaps(np.array([0, 2, 1, 9]), np.array([5, 5, 3, 10]))
    assert (before.tolist(), after.tolist()) == ([1], [3])


def test_overlap_adds_up_what_is_side_by_side() -> None:
    chunks = np.array([0, 5, 8, 12, 29, 40])
    taken = overlap(STARTS, ENDS, chunks[:-1], chunks[1:])
    assert taken.tolist() == [0, 3 + 1, 2 + 1, 2 + 3 + 9, 1]


def test_nothing_covers_nothing_has_no_gaps_and_takes_nothing() -> None:
    assert [len(part) for part in gaps(NOTHING, NOTHING)] == [0, 0]
    assert overlap(NOTHING, NOTHING, np.array([0]), np.array([9])).tolist() == [0]
    covered = union(NOTHING, NOTHING)
    assert (pairs(covered), covered.length) == ([], 0)
    assert covered.holds(np.array([0, 7])).tolist() == [False, False]
    assert covered.within(np.array([0]), np.array([9])).tolist() == [0]
    assert pairs(intersection(covered, union(STARTS, ENDS))) == []


def counted(start: NDArray[Any], end: NDArray[Any], length: int) -> NDArray[Any]:
    """How many intervals hold each nanosecond."""
    return np.array([np.count_nonzero((start <= ns) & (ns < end)) for ns in range(length)])


def drawn(dice: random.Random) -> tuple[NDArray[Any], NDArray[Any]]:
    start = np.array([dice.randrange(80) for _ in range(dice.randrange(1, 12))])
    return start, start + np.array([dice.choice((0, dice.randrange(1, 20))) for _ in start])


@pytest.mark.parametrize("seed", range(50))
def test_as_counted(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - no secret
    start, end = drawn(dice)
    count = counted(start, end, 100)
    busy = np.flatnonzero(count)
    before, after = gaps(start, end)
    idle = [ns for i, j in zip(before, after, strict=True) for ns in range(end[i], start[j])]
    assert idle == [ns for ns in range(start.min(), end.max()) if ns not in busy]
    edges = np.array(sorted(dice.sample(range(101), 5)))
    sums = [count[low:high].sum() for low, high in pairwise(edges)]
    assert overlap(start, end, edges[:-1], edges[1:]).tolist() == sums


@pytest.mark.parametrize("alike", [0, 64])  # both ways to intersect
@pytest.mark.parametrize("seed", range(50))
def test_covers_as_counted(seed: int, alike: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "_ALIKE", alike)
    dice = random.Random(seed)  # noqa: S311 - no secret
    one, other = drawn(dice), drawn(dice)
    left, right = (counted(*part, 100) > 0 for part in (one, other))
    covered, both = union(*one), intersection(union(*one), union(*other))
    assert covered.holds(np.arange(100)).tolist() == left.tolist()
    assert both.holds(np.arange(100)).tolist() == (left & right).tolist()
    assert (covered.length, both.length) == (left.sum(), (left & right).sum())
    for part in (covered, both):
        assert (part.start < part.end).all()
        assert (part.end[:-1] < part.start[1:]).all()
    edges = np.array(sorted(dice.sample(range(101), 5)))
    sums = [left[low:high].sum() for low, high in pairwise(edges)]
    assert covered.within(edges[:-1], edges[1:]).tolist() == sums


@pytest.mark.parametrize("seed", range(50))
def test_one_interval_as_counted(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - no secret
    one = drawn(dice)
    covered, count = union(*one), counted(*one, 100) > 0
    as_made = pairs(covered)
    for low, high in (sorted(dice.sample(range(101), 2)) for _ in range(9)):
        window = IntervalSet(np.array([low]), np.array([high]))
        for both in (intersection(covered, window), intersection(window, covered)):
            assert (both.start < both.end).all()
            inside = [low <= ns < high and bool(count[ns]) for ns in range(100)]
            assert both.holds(np.arange(100)).tolist() == inside
        assert covered.within(*window).tolist() == [sum(inside)]
        assert covered.within(window.start, window.start).tolist() == [0]
    assert pairs(covered) == as_made
