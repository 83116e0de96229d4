"""Gaps and overlaps, against drawings on paper and against counting every nanosecond."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nsyswrap.intervals import gaps, overlap

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Busy from 5 to 10 and from 15 to 30: one interval inside another, two that touch, an empty one at the end.
STARTS = np.array([15, 5, 20, 7, 30, 17])
ENDS = np.array([17, 10, 30, 9, 30, 20])


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


def test_nothing_has_no_gaps_and_takes_nothing() -> None:
    nothing = np.empty(0, np.int64)
    assert [len(part) for part in gaps(nothing, nothing)] == [0, 0]
    assert overlap(nothing, nothing, np.array([0]), np.array([9])).tolist() == [0]


def counted(start: NDArray[Any], end: NDArray[Any], length: int) -> NDArray[Any]:
    """How many intervals hold each nanosecond."""
    return np.array([np.count_nonzero((start <= ns) & (ns < end)) for ns in range(length)])


@pytest.mark.parametrize("seed", range(50))
def test_as_counted(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - no secret
    start = np.array([dice.randrange(80) for _ in range(dice.randrange(1, 12))])
    end = start + np.array([dice.choice((0, dice.randrange(1, 20))) for _ in start])
    count = counted(start, end, 100)
    busy = np.flatnonzero(count)
    before, after = gaps(start, end)
    idle = [ns for i, j in zip(before, after, strict=True) for ns in range(end[i], start[j])]
    assert idle == [ns for ns in range(start.min(), end.max()) if ns not in busy]
    edges = np.array(sorted(dice.sample(range(101), 5)))
    sums = [count[low:high].sum() for low, high in pairwise(edges)]
    assert overlap(start, end, edges[:-1], edges[1:]).tolist() == sums
